# Libraries that a program loads when it needs them, and not at each start.
#
# Loading libdw, libelf and libbpf takes a short command as long as its work, and each library takes a part of it. The archives that call them stay as
# they are: the program gets a stub for each function that they use, which jumps to what
# cli/shell/libraries.cpp found in the library, by name and version.

# vitrine_lazy_libraries(target LIBRARIES file… ARCHIVES target… FILES file…): what `ARCHIVES`, and archives that are
# no targets, use of `LIBRARIES`. The targets' own links must leave the libraries out (VITRINE_LAZY_LIBRARIES of the program). The stubs are of the language ASM.
function(vitrine_lazy_libraries target)
  cmake_parse_arguments(arg "" "" "LIBRARIES;ARCHIVES;FILES" ${ARGN})
  set(stubs ${CMAKE_CURRENT_BINARY_DIR}/${target}-stubs.S)
  set(files ${arg_FILES})
  foreach(archive IN LISTS arg_ARCHIVES)
    list(APPEND files $<TARGET_FILE:${archive}>)
  endforeach()
  list(JOIN arg_LIBRARIES "," libraries)
  list(JOIN files "," archives)
  set(script ${vitrine_SOURCE_DIR}/cmake/LazyLibraries.cmake)
  add_custom_command(OUTPUT ${stubs} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DNM=${CMAKE_NM} -DREADELF=${CMAKE_READELF} -DLIBRARIES=${libraries}
            -DARCHIVES=${archives} -DMACHINE=${CMAKE_SYSTEM_PROCESSOR} -DOUTPUT=${stubs} -P ${script}
    DEPENDS ${arg_ARCHIVES} ${files} ${script}
    COMMENT "Making stubs of libraries for ${target}")
  target_sources(${target} PRIVATE ${stubs})
endfunction()

# vitrine_archive(variable file library): `library`, and for programs that want archives (VITRINE_ARCHIVES) the
# archive `file`, where it is there.
function(vitrine_archive variable file library)
  string(MAKE_C_IDENTIFIER "VITRINE_ARCHIVE_${file}" known)
  find_library(${known} ${file})
  mark_as_advanced(${known})
  set(link ${library})
  if(${known})
    set(link $<IF:$<BOOL:$<TARGET_PROPERTY:VITRINE_ARCHIVES>>,${${known}},${library}>)
  endif()
  set(${variable} ${link} PARENT_SCOPE)
endfunction()
