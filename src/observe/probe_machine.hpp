// Which grammar the arguments of a file's probes have, by the processor that it is for.
#pragma once

#include <elf.h>

#include "probe/probe.hpp"

namespace vitrine::observe {

/// `machine`: e_machine.
constexpr probe::Machine probe_machine(std::uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return probe::Machine::x86_64;
    case EM_386:
      return probe::Machine::i386;
    case EM_AARCH64:
      return probe::Machine::aarch64;
    case EM_ARM:
      return probe::Machine::arm;
    case EM_PPC64:
      return probe::Machine::ppc64;
    case EM_S390:
      return probe::Machine::s390x;
    case EM_RISCV:
      return probe::Machine::riscv64;
    case 258:  // EM_LOONGARCH, younger than Debian's headers
      return probe::Machine::loongarch64;
    default:
      return probe::Machine::other;
  }
}

}  // namespace vitrine::observe
