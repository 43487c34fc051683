// What differs between the machines whose objects we process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "dof/site_pattern.hpp"

namespace vitrine::usdt {

struct ObjectMachine {
  Machine machine;
  std::string_view name;
  std::uint16_t elf;                 ///< EM_*
  bool wide;                         ///< ELFCLASS64; else 32
  bool addends;                      ///< relocations are SHT_RELA; else SHT_REL
  std::uint32_t relative;            ///< relocation: address of the symbol less that of the word
  std::uint32_t relative_32;         ///< the same of a 4-byte word
  std::uint32_t feature_property;    ///< GNU property whose bits all inputs must share
  std::span<const std::byte> entry;  ///< what an indirect call may land on
};

/// Null: a machine that we do not know.
const ObjectMachine* find_machine(std::uint16_t elf, bool wide);

/// "x86-64, i386 and aarch64": for messages.
inline constexpr std::string_view known_machines = "x86-64, i386 and aarch64";

/// An instruction that a relocation belongs to.
struct Branch {
  dof::Instruction instruction;
  std::size_t start;  ///< of its bytes, in the code
};

/// The direct call or jump to the very start of a function whose target the relocation at `offset`
/// of `code` gives; none: something else, such as an address or a conditional jump.
std::optional<Branch> direct_branch(const ObjectMachine& machine, std::span<const std::byte> code,
                                    std::uint64_t offset, std::uint32_t type, std::int64_t addend);

/// Where the instruction began that a relocation at `offset` belonged to, once it is patched.
std::optional<std::size_t> patched_start(const ObjectMachine& machine, std::uint64_t offset);

/// A relocation that does nothing (R_*_NONE).
bool does_nothing(const ObjectMachine& machine, std::uint32_t type);

/// A relocation that can only be about a function's address, however it is reached; others (of
/// thread-local variables, or the dynamic linker's own) mean that the object is broken.
bool takes_address(const ObjectMachine& machine, std::uint32_t type);

}  // namespace vitrine::usdt
