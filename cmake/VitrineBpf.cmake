# Building BPF programs: clang compiles them, bpftool makes the skeletons that their loaders
# include. Without either tool, or with VITRINE_BPF=OFF, everything else is built all the same.

set(VITRINE_BPF_READY OFF)
if(VITRINE_BPF)
  find_program(VITRINE_BPF_CLANG NAMES clang clang-14 clang-15 clang-16 clang-17 clang-18 clang-19)
  find_program(VITRINE_BPFTOOL bpftool PATHS /usr/sbin /sbin)
  find_package(PkgConfig)
  if(PkgConfig_FOUND)
    pkg_check_modules(LIBBPF IMPORTED_TARGET libbpf>=1.0)
  endif()
  if(VITRINE_BPF_CLANG AND VITRINE_BPFTOOL AND LIBBPF_FOUND)
    set(VITRINE_BPF_READY ON)
  else()
    message(STATUS "vitrine: building without BPF programs (they need clang, bpftool and libbpf): "
      "no ebpf mode, and snapshot mode proves by /proc only")
  endif()
else()
  message(STATUS "vitrine: building without BPF programs (VITRINE_BPF is OFF)")
endif()

# vitrine_bpf_skeletons(target PATH…): kernel/PATH.bpf.c of this folder becomes NAME.skel.h for `target`, NAME being
# the last part of PATH.
function(vitrine_bpf_skeletons target)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(machine arm64)
  else()
    set(machine x86)
  endif()
  set(out ${CMAKE_CURRENT_BINARY_DIR}/skeletons)
  file(MAKE_DIRECTORY ${out})
  foreach(path IN LISTS ARGN)
    get_filename_component(name ${path} NAME)
    add_custom_command(
      OUTPUT ${out}/${name}.skel.h
      BYPRODUCTS ${out}/${name}.bpf.o
      COMMAND ${VITRINE_BPF_CLANG} -target bpf -std=gnu11 -O2 -g -mcpu=v3 -Wall -Wextra -Werror
        -Wno-unused-parameter -D__TARGET_ARCH_${machine} -I ${PROJECT_SOURCE_DIR}/src
        -idirafter /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}
        -MD -MF ${out}/${name}.d -MT ${out}/${name}.skel.h
        -c ${CMAKE_CURRENT_SOURCE_DIR}/kernel/${path}.bpf.c -o ${out}/${name}.bpf.o
      COMMAND ${VITRINE_BPFTOOL} gen skeleton ${out}/${name}.bpf.o name vitrine_${name}
        > ${out}/${name}.skel.h
      DEPENDS kernel/${path}.bpf.c
      DEPFILE ${out}/${name}.d
      COMMENT "BPF program ${name}"
      VERBATIM)
    target_sources(${target} PRIVATE ${out}/${name}.skel.h)
  endforeach()
  target_include_directories(${target} SYSTEM PRIVATE ${out})
endfunction()
