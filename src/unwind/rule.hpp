// How a frame is left: from the registers within a function to those of its caller.
//
// Terms of DWARF 5, 6.4: the canonical frame address (CFA) is the stack pointer of the caller at
// the call; registers are restored from words at offsets from it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "unwind/registers.hpp"

namespace vitrine::unwind {

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

/// All that CFI says about one pc.
struct Row {
  RegisterRule cfa;  ///< in_register: that register + cfa_offset; or expression
  std::int64_t cfa_offset = 0;
  std::array<RegisterRule, register_count> registers;
  bool is_signal = false;  ///< the frame of a signal trampoline: its caller was interrupted
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
    offsets,    ///< this rule says it all
    row,        ///< only the Row does
    outermost,  ///< the function has no caller
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

}  // namespace vitrine::unwind
