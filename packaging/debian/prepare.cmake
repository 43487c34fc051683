# Run by cpack before it makes the packages.
cmake_policy(VERSION 3.25)

# What Debian wants compressed is.
set(staged ${CPACK_TEMPORARY_DIRECTORY})
file(GLOB_RECURSE files ${staged}/*/usr/share/man/*.1 ${staged}/*/usr/share/doc/*/changelog*)
foreach(file IN LISTS files)
  execute_process(COMMAND gzip -9nf ${file} COMMAND_ERROR_IS_FATAL ANY)
endforeach()

# For programs in other packages: which package they need. (By `shlibs` that could not be said of
# libraries without a version in their names.)
set(text "")
file(GLOB_RECURSE libraries ${staged}/labels/usr/lib/libcustomlabels*.so)
foreach(library IN LISTS libraries)
  cmake_path(GET library FILENAME name)
  string(APPEND text "${name} libcustomlabels-vitrine #MINVER#\n")
  execute_process(COMMAND nm -D --defined-only --format=posix ${library}
    OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" symbols "${symbols}")
  list(SORT symbols)
  foreach(symbol IN LISTS symbols)
    # The C++ interface has versions: "name@@VITRINE_LABELS_1 T …".
    string(REGEX REPLACE " .*" "" symbol "${symbol}")
    string(REPLACE "@@" "@" symbol "${symbol}")
    if(symbol MATCHES "^VITRINE_LABELS_")
      string(APPEND symbol "@${symbol}")
    elseif(NOT symbol MATCHES "@")
      string(APPEND symbol "@Base")
    endif()
    string(APPEND text " ${symbol} ${CPACK_PACKAGE_VERSION}\n")
  endforeach()
endforeach()
file(WRITE ${CPACK_VITRINE_LABELS_SYMBOLS} "${text}")
