// Rules of call frame information: registers, rules, blocks of them, and their source.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/machine.hpp"
#include "base/memory.hpp"

namespace vitrine::unwind {

// The registers of a thread, as DWARF numbers them.

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

// How a frame is left: from the registers within a function to those of its caller.
//
// Terms of DWARF 5, 6.4: the canonical frame address (CFA) is the stack pointer of the caller at
// the call; registers are restored from words at offsets from it.

/// Where the caller's value of one register is.
struct RegisterRule {
  enum class Kind : std::uint8_t {
    unspecified,    ///< as the ABI has it: kept or lost
    undefined,      ///< lost; of the return address: there is no caller
    same,           ///< where it was
    at_cfa,         ///< in the word at CFA + value
    cfa_plus,       ///< it is CFA + value
    in_register,    ///< in register `value`
    at_expression,  ///< in the word whose address an expression gives
    expression,     ///< it is what an expression gives
  };
  Kind kind = Kind::unspecified;
  std::uint32_t size = 0;  ///< of the expression, bytes; it starts at `value` of Row::expressions
  std::int64_t value = 0;

  bool operator==(const RegisterRule&) const = default;
};

/// All that CFI records about one pc.
struct Row {
  RegisterRule cfa;  ///< in_register: that register + cfa_offset; or expression
  std::int64_t cfa_offset = 0;
  std::array<RegisterRule, register_count> registers;
  bool is_signal = false;      ///< the frame of a signal trampoline: its caller was interrupted
  bool changes_stack = false;  ///< the stack pointer may be of another stack than the CFA
  std::vector<std::byte> expressions;  ///< the bytes of all of them

  [[nodiscard]] std::span<const std::byte> expression(const RegisterRule& rule) const {
    return std::span(expressions).subspan(static_cast<std::size_t>(rule.value), rule.size);
  }

  bool operator==(const Row&) const = default;
};

/// What nearly every row comes down to, in a form that is quick to apply: CFA = register + offset,
/// frame pointer and return address at offsets from it.
struct Rule {
  enum class Form : std::uint8_t {
    none,       ///< no CFI covers the pc
    unknown,    ///< nor do its instructions show it, and that code keeps no frame pointers
    offsets,    ///< this rule is complete
    row,        ///< only the Row does
    outermost,  ///< the function has no caller
    signal,     ///< of a RulePage only: a signal trampoline with the kernel's own frame
    switched,   ///< as `offsets`, but the stack pointer may be of another stack than the CFA
  };
  enum class Source : std::uint8_t { at_cfa, same, lost };
  Form form = Form::none;
  std::uint8_t cfa_register = 0;
  Source frame_pointer = Source::same;
  Source return_address = Source::at_cfa;  ///< same: in the link register
  std::int32_t cfa_offset = 0;
  std::int32_t frame_pointer_offset = 0;
  std::int32_t return_address_offset = 0;

  bool operator==(const Rule&) const = default;
};
static_assert(sizeof(Rule) == 16);

/// Whether it can be applied: what comes from another process may name what is not there.
bool is_sound(const Rule& rule);
bool is_sound(const Row& row);

/// The rule for a row: of the form `row` where it does not fit.
Rule compact(const Row& row, Machine machine);

// RuleBlock: the rules of neighbouring code of a file, as they are handed to the unwinder.

/// Addresses with one rule.
struct RuleSpan {
  std::uint32_t start = 0;  ///< from RuleBlock::start
  std::uint32_t size = 0;
  Rule rule;

  bool operator==(const RuleSpan&) const = default;
};

struct RuleBlock {
  Address start = 0;            ///< in the file's own address space
  Address end = 0;              ///< one past the last
  std::vector<RuleSpan> spans;  ///< by start; a caller asks for what is between them by itself

  // Null: no span has it.
  [[nodiscard]] const RuleSpan* span_of(Address address) const;
  [[nodiscard]] const Rule* find(Address address) const {
    const RuleSpan* span = span_of(address);
    return span != nullptr ? &span->rule : nullptr;
  }

  /// Spans in order, within the block, with rules that can be applied. What comes from another
  /// process may be otherwise.
  [[nodiscard]] bool is_sound() const;

  bool operator==(const RuleBlock&) const = default;
};

// RuleSource: how the functions of one file are left. That is its CFI (FrameTable), read
// here or in another process.

class RuleSource {
 public:
  virtual ~RuleSource() = default;

  [[nodiscard]] virtual Machine machine() const = 0;

  /// The rule at one of the file's own addresses.
  virtual Rule rule(Address address) = 0;

  /// The same in full; null: there is none. Lives until the next call.
  virtual const Row* row(Address address) = 0;

  /// The rule of a pc without CFI, by the instructions there. `none`: that code goes by frame
  /// pointers, or nothing is known. `is_return`: a call ends at the pc.
  virtual Rule rule_by_code(Address, bool /*is_return*/) { return {}; }

  /// Whether a call can return to an address: the instruction before it is one.
  virtual bool follows_call(Address) { return true; }
};

}  // namespace vitrine::unwind
