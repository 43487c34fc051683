# The command with all it needs inside: it starts in three quarters of the time, which is most of what
# listing a file costs (bench/list_bench), and runs wherever it is copied to, an empty container
# included. Where an archive is missing it is linked as usual.

option(VITRINE_STATIC "Link the command statically where the archives of its libraries are there" ON)
set(VITRINE_STATIC_READY OFF)

if(VITRINE_STATIC AND VITRINE_OBSERVE AND NOT VITRINE_SANITIZE)
  include(CheckCXXSourceCompiles)
  include(CMakePushCheckState)
  cmake_push_check_state(RESET)
  set(CMAKE_REQUIRED_FLAGS -fPIE)
  set(CMAKE_REQUIRED_LINK_OPTIONS -static-pie)
  set(CMAKE_REQUIRED_LIBRARIES $<$<BOOL:${VITRINE_BPF_READY}>:bpf> elf z)
  check_cxx_source_compiles("
    #include <fmt/core.h>
    #if FMT_VERSION / 10000 != 9
    #error src/cli/fmt_inside.cpp knows version 9
    #endif
    int main() {}" VITRINE_STATIC_LINKS)
  cmake_pop_check_state()
  set(VITRINE_STATIC_READY ${VITRINE_STATIC_LINKS})
endif()

# vitrine_shared_or_archives(out target archive…): what a layer links: `target`, a shared library; in
# an executable with the property VITRINE_STATIC the archives.
function(vitrine_shared_or_archives out target)
  set(static $<BOOL:$<TARGET_PROPERTY:VITRINE_STATIC>>)
  set(items $<$<NOT:${static}>:${target}>)
  foreach(archive IN LISTS ARGN)
    list(APPEND items $<${static}:${archive}>)
  endforeach()
  set(${out} ${items} PARENT_SCOPE)
endfunction()
