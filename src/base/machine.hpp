// Machine: the processor that a file, a process or an instruction is for.
#pragma once

#include <elf.h>

#include <cstdint>

namespace vitrine {

enum class Machine : std::uint8_t {
  x86_64,
  i386,
  aarch64,
  arm,
  ppc64,
  s390x,
  riscv64,
  loongarch64,
  other
};

/// By the e_machine of an ELF header.
constexpr Machine machine_of(std::uint16_t e_machine) {
  switch (e_machine) {
    case EM_X86_64:
      return Machine::x86_64;
    case EM_386:
      return Machine::i386;
    case EM_AARCH64:
      return Machine::aarch64;
    case EM_ARM:
      return Machine::arm;
    case EM_PPC64:
      return Machine::ppc64;
    case EM_S390:
      return Machine::s390x;
    case EM_RISCV:
      return Machine::riscv64;
    case 258:  // EM_LOONGARCH, younger than Debian's headers
      return Machine::loongarch64;
    default:
      return Machine::other;
  }
}

/// The machine that this code runs on, and the kernel with it. A 64-bit program runs on a kernel of
/// its own machine only.
#if defined(__x86_64__)
inline constexpr Machine native_machine = Machine::x86_64;
#elif defined(__aarch64__)
inline constexpr Machine native_machine = Machine::aarch64;
#else
#error "vitrine observes x86-64 and aarch64 processes, on the same machine"
#endif

}  // namespace vitrine
