// Machines of the object step: relocations, bitcode, stubs and their frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dof/dof.hpp"

namespace vitrine::usdt {

// What differs between the machines whose objects we process.

struct ObjectMachine {
  Machine machine;
  std::string_view name;
  std::uint16_t elf;                 ///< EM_*
  bool wide;                         ///< ELFCLASS64; else 32
  bool addends;                      ///< relocations are SHT_RELA; else SHT_REL
  std::uint32_t relative;            ///< relocation: address of the symbol less that of the word
  std::uint32_t relative_32;         ///< the same of a 4-byte word
  std::uint32_t absolute;            ///< relocation: address of the symbol
  std::uint32_t feature_property;    ///< GNU property whose bits all inputs must share
  std::span<const std::byte> entry;  ///< what an indirect call may land on
};

/// Null: a machine that we do not know.
const ObjectMachine* find_machine(std::uint16_t elf, bool wide);
const ObjectMachine* find_machine(Machine machine);

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

// LLVM bitcode: what clang -flto writes instead of an object file.

bool is_bitcode(std::span<const std::byte> bytes);

/// The machine that it is to become code of, by the target triple in its table of strings; null: it
/// has none, or another machine.
const ObjectMachine* bitcode_machine(std::span<const std::byte> bytes);

// Functions that stand in for a probe where its call was not patched (docs/formats/object-step.md,
// "Stubs"): in objects that were not processed or that -flto made, behind addresses, conditional
// jumps and the GOT.

struct Stub {
  std::vector<std::byte> code;
  std::uint32_t site = 0;  ///< where in it a uprobe goes
  std::uint32_t data = 0;  ///< where its code ends, and what makes it unlike all others begins
};

/// The stub of the probe with this symbol.
Stub make_stub(const ObjectMachine& machine, dof::Use use, std::string_view symbol);

// Call frame information of stubs (.eh_frame): by it debuggers and profilers find the caller of
// one.

/// An .eh_frame section that grows by a function at a time. Sources: the psABIs of the machines
/// (register numbers), the Linux Standard Base, "Exception Frames".
class StubFrames {
 public:
  explicit StubFrames(const ObjectMachine& machine);

  /// A function of `size` bytes that leaves the stack alone. Returns where the word is that must
  /// come to be the function's address, relative to itself: 4 bytes.
  std::uint64_t add(std::uint32_t size);

  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }
  [[nodiscard]] std::uint32_t alignment() const { return machine_.wide ? 8 : 4; }

 private:
  void begin();
  void end();

  const ObjectMachine& machine_;
  std::vector<std::byte> bytes_;
  std::size_t entry_ = 0;  ///< where the one being written began
};

}  // namespace vitrine::usdt
