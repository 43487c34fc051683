# Verifies in a produced file what readers depend on (docs/formats/custom-labels.md,
# "Duties of a writer"), with readelf:
#
#   cmake -DFILE=… -DREADELF=… -DVERSION=1 -DSLOTS=custom_labels_current_set:8,…
#         [-DSONAME=libcustomlabels.so] -P CheckPublishedSymbols.cmake
#
# - custom_labels_abi_version: a global object of 4 bytes in .dynsym, read-only, its bytes VERSION
# - each slot: a global thread-local object of its size in .dynsym
# - with SONAME (a shared library): that soname, never unloaded, the slots reached through TLS
#   descriptors alone
# - no executable stack, no text relocations
#
# A build whose compiler chose otherwise fails here, not on the first user who sees no labels.
cmake_minimum_required(VERSION 3.25)

set(problems "")

function(readelf out)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C ${READELF} ${ARGN} ${FILE}
    OUTPUT_VARIABLE text ERROR_VARIABLE error RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${READELF} ${ARGN} ${FILE}: ${error}")
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

readelf(symbols --wide --dyn-syms)
readelf(sections --wide --section-headers)
readelf(segments --wide --program-headers)
readelf(dynamic --wide --dynamic)
readelf(relocations --wide --relocs)

# expect_symbol(name type size): checks a defined dynamic symbol; leaves its value and section in
# ${name}_value and ${name}_section.
function(expect_symbol name type size)
  # Num: Value Size Type Bind Vis [target-specific, such as <OS specific>] Ndx Name
  string(REGEX MATCH "([0-9a-f]+) +([0-9]+) ([A-Z]+ +[A-Z]+ +[A-Z]+) +([^\n]* )?([0-9]+) ${name}\n"
    found "${symbols}")
  if(NOT found)
    set(problems ${problems} "${name} is not exported (.dynsym)" PARENT_SCOPE)
    return()
  endif()
  set(${name}_value ${CMAKE_MATCH_1} PARENT_SCOPE)
  set(${name}_section ${CMAKE_MATCH_5} PARENT_SCOPE)
  string(REGEX REPLACE " +" " " actual "${CMAKE_MATCH_3}, ${CMAKE_MATCH_2} bytes")
  set(wanted "${type} GLOBAL DEFAULT, ${size} bytes")
  if(NOT actual STREQUAL wanted)
    set(problems ${problems} "${name} is ${actual}; must be ${wanted}" PARENT_SCOPE)
  endif()
endfunction()

set(version_symbol custom_labels_abi_version)
expect_symbol(${version_symbol} OBJECT 4)
if(${version_symbol}_section)
  # [Nr] Name Type Address Off Size ES Flg …
  string(REGEX MATCH "\\[ *${${version_symbol}_section}\\] ([^ ]+) +([A-Z]+) +([0-9a-f]+) ([0-9a-f]+) [0-9a-f]+ [0-9a-f]+ +([A-Zop]*)"
    found "${sections}")
  set(section ${CMAKE_MATCH_1})
  set(type ${CMAKE_MATCH_2})
  set(flags ${CMAKE_MATCH_5})
  math(EXPR offset "0x${${version_symbol}_value} - 0x${CMAKE_MATCH_3} + 0x${CMAKE_MATCH_4}")
  file(READ ${FILE} bytes OFFSET ${offset} LIMIT 4 HEX)
  if(NOT type STREQUAL "PROGBITS" OR flags MATCHES "W")
    list(APPEND problems "${version_symbol} is in ${section} (${type} ${flags}), not in constant data")
  elseif(NOT bytes STREQUAL "0${VERSION}000000")
    list(APPEND problems "${version_symbol} holds the bytes ${bytes}; must be ${VERSION}")
  endif()
endif()

string(REPLACE "," ";" SLOTS "${SLOTS}")
foreach(slot IN LISTS SLOTS)
  string(REGEX MATCH "^(.*):(.*)$" ignored ${slot})
  set(name ${CMAKE_MATCH_1})
  expect_symbol(${name} TLS ${CMAKE_MATCH_2})
  if(SONAME)
    string(REGEX MATCHALL "R_[A-Z0-9_]+ [^\n]* ${name} \\+ [^\n]*" uses "${relocations}")
    if(NOT uses MATCHES "_TLSDESC ")
      set(problem "${name} has no TLS descriptor relocation")
      if(relocations MATCHES "_TLSDESC +-?[0-9a-f]+\n")
        string(APPEND problem " with its symbol, by which readers find it: lld makes none. Link with ld.bfd, gold or mold")
      endif()
      list(APPEND problems "${problem}")
    endif()
    foreach(use IN LISTS uses)
      if(NOT use MATCHES "_TLSDESC ")
        list(APPEND problems "${name} is reached through ${use} too")
      endif()
    endforeach()
  endif()
endforeach()

if(SONAME)
  if(NOT dynamic MATCHES "\\(SONAME\\) +Library soname: \\[${SONAME}\\]")
    list(APPEND problems "the soname is not ${SONAME}")
  endif()
  if(NOT dynamic MATCHES "\\(FLAGS_1\\)[^\n]*NODELETE")
    list(APPEND problems "dlclose would unload it (link with -z nodelete)")
  endif()
endif()
if(NOT segments MATCHES "GNU_STACK [^\n]* RW ")
  list(APPEND problems "the stack is executable")
endif()
if(dynamic MATCHES "TEXTREL")
  list(APPEND problems "it has text relocations")
endif()

if(problems)
  list(JOIN problems "\n  " text)
  message(FATAL_ERROR "${FILE} cannot be read by readers of its labels:\n  ${text}")
endif()
