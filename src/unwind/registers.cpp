#include "unwind/registers.hpp"

#include <elf.h>

namespace vitrine::unwind {

std::optional<Machine> machine_of(std::uint16_t e_machine) {
  if (e_machine == EM_X86_64) return Machine::x86_64;
  if (e_machine == EM_AARCH64) return Machine::aarch64;
  return std::nullopt;
}

}  // namespace vitrine::unwind
