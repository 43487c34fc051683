// The registers of a thread, as DWARF numbers them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/machine.hpp"
#include "base/memory.hpp"

namespace vitrine::unwind {

/// Whether stacks of this machine are unwound.
constexpr bool is_unwound(Machine machine) {
  return machine == Machine::x86_64 || machine == Machine::aarch64;
}

/// More than any DWARF number that we keep.
inline constexpr std::size_t register_count = 33;

/// What has a role in every frame. Sources: System V x86-64 psABI 3.6.2, DWARF for the Arm 64-bit
/// architecture 4.1.
struct Roles {
  std::uint8_t stack;   ///< rsp, sp
  std::uint8_t frame;   ///< rbp, x29
  std::uint8_t pc;      ///< rip, pc
  std::uint8_t result;  ///< the column of the return address: rip, x30
  std::uint64_t kept;   ///< bit n: a called function leaves register n as it was
};

constexpr Roles roles_of(Machine machine) {
  if (machine == Machine::x86_64) return {7, 6, 16, 16, 0xf048};
  return {31, 29, 32, 30, 0x3ff8'0000};
}

/// x86-64: 0 to 15 (rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 …), 16: rip.
/// aarch64: 0 to 30, 31: sp, 32: pc.
struct Registers {
  Machine machine = Machine::x86_64;
  std::array<std::uint64_t, register_count> words{};

  [[nodiscard]] Address pc() const { return words[roles_of(machine).pc]; }
  [[nodiscard]] Address sp() const { return words[roles_of(machine).stack]; }
};

/// A return address without the signature that pointer authentication puts into its upper bits. No
/// code of a process is above 48 bits unless it asks for addresses there.
constexpr Address code_address(Machine machine, std::uint64_t word) {
  return machine == Machine::aarch64 ? word & 0xffff'ffff'ffffULL : word;
}

}  // namespace vitrine::unwind
