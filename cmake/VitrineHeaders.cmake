# vitrine_header_closure(result root header…): these headers and all that they include with "…", by way of
# others too, as paths under `root`; each after those that it includes.
cmake_policy(VERSION 3.25)

function(vitrine_header_closure result root)
  set(found)
  foreach(header IN LISTS ARGN)
    vitrine_add_header(${root} ${header})
  endforeach()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# Adds to `found` of the caller. `ARGN` are the headers that this one is included by.
function(vitrine_add_header root header)
  if(header IN_LIST found OR header IN_LIST ARGN)
    return()
  endif()
  file(STRINGS ${root}/${header} lines REGEX "^ *# *include \"")
  cmake_path(GET header PARENT_PATH folder)
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[^\"]*\"([^\"]*)\".*" "\\1" included "${line}")
    if(NOT EXISTS ${root}/${included})  # as the C headers shared with the kernel say it
      cmake_path(APPEND folder ${included} OUTPUT_VARIABLE included)
      cmake_path(NORMAL_PATH included)
    endif()
    vitrine_add_header(${root} ${included} ${ARGN} ${header})
  endforeach()
  set(found ${found} ${header} PARENT_SCOPE)
endfunction()
