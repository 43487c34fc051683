# Writes stubs of the functions that archives use of libraries (VitrineLazy.cmake), and a list of them:
# "\1libdw.so.1\0", then "name\0version\0" for each function, in the order of the slots.
cmake_policy(VERSION 3.25)
string(REPLACE "," ";" LIBRARIES "${LIBRARIES}")
string(REPLACE "," ";" ARCHIVES "${ARCHIVES}")

execute_process(COMMAND ${NM} --undefined-only --format=posix ${ARCHIVES}
  OUTPUT_VARIABLE used ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\n[A-Za-z_0-9]+ U" used "\n${used}")
list(REMOVE_DUPLICATES used)

set(names "")
set(code "")
set(slots 0)
foreach(library IN LISTS LIBRARIES)
  execute_process(COMMAND ${READELF} -dW ${library} OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
  if(NOT dynamic MATCHES "\\(SONAME\\)[^[]*\\[([^]]+)\\]")
    message(FATAL_ERROR "${library} has no SONAME")
  endif()
  string(APPEND names "  .asciz \"\\001${CMAKE_MATCH_1}\"\n")
  execute_process(COMMAND ${NM} -D --defined-only --format=posix ${library}
    OUTPUT_VARIABLE defined COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" defined "${defined}")
  set(found FALSE)
  foreach(line IN LISTS defined)
    # "dwarf_begin@@ELFUTILS_0.122 T …"; with one @ it is an older version.
    if(NOT line MATCHES "^([A-Za-z_0-9]+)(@@([^ ]+))? [TtWi] ")
      continue()
    endif()
    set(name "${CMAKE_MATCH_1}")
    set(symbol_version "${CMAKE_MATCH_3}")
    if(NOT "\n${name} U" IN_LIST used)
      continue()
    endif()
    set(found TRUE)
    math(EXPR offset "${slots} * 8")
    string(APPEND names "  .asciz \"${name}\"\n  .asciz \"${symbol_version}\"\n")
    string(APPEND code "  stub ${name}, ${offset}\n")
    math(EXPR slots "${slots} + 1")
  endforeach()
  if(NOT found)
    message(FATAL_ERROR "nothing of ${library} is used")
  endif()
endforeach()
math(EXPR bytes "${slots} * 8")

if(MACHINE MATCHES "aarch64")
  set(stub "  adrp x16, vitrine_lazy_slots+\\offset
  ldr x16, [x16, :lo12:vitrine_lazy_slots+\\offset]
  cbz x16, 1f
  br x16
1:
  b vitrine_library_missing")
else()
  set(stub "  endbr64
  movq vitrine_lazy_slots+\\offset(%rip), %r11
  testq %r11, %r11
  jz vitrine_library_missing
  jmp *%r11")
endif()
file(WRITE ${OUTPUT} "# Made by cmake/LazyLibraries.cmake.
  .section .note.GNU-stack,\"\",%progbits
  .macro stub name, offset
  .globl \\name
  .hidden \\name
  .type \\name, %function
\\name:
${stub}
  .size \\name, .-\\name
  .endm
  .text
${code}
  .section .rodata
  .globl vitrine_lazy_names
  .hidden vitrine_lazy_names
vitrine_lazy_names:
${names}  .byte 0
  .bss
  .balign 8
  .globl vitrine_lazy_slots
  .hidden vitrine_lazy_slots
vitrine_lazy_slots:
  .skip ${bytes}
")
