// Position: the registers as they were in one frame, as far as they are known.
#pragma once

#include <optional>
#include <tl/expected.hpp>

#include "unwind/frame.hpp"
#include "unwind/rule.hpp"

namespace vitrine::unwind {

struct Position {
  Registers registers;
  std::uint64_t known = (std::uint64_t{1} << register_count) - 1;  ///< bit n: register n is

  [[nodiscard]] bool knows(std::size_t number) const { return (known >> number & 1) != 0; }

  [[nodiscard]] std::optional<std::uint64_t> get(std::uint64_t number) const {
    if (number >= register_count || !knows(static_cast<std::size_t>(number))) return std::nullopt;
    return registers.words[static_cast<std::size_t>(number)];
  }
  void set(std::size_t number, std::optional<std::uint64_t> value) {
    registers.words[number] = value.value_or(0);
    const std::uint64_t bit = std::uint64_t{1} << number;
    known = value ? known | bit : known & ~bit;
  }
};

/// Whether a saved register has been restored already. Compilers do not record it where a function pops
/// its registers before it returns, and from there on the place is below the stack pointer: it belongs
/// to what the function calls next.
inline bool is_popped(const Position& position, Address saved_at) {
  const std::uint8_t stack = roles_of(position.registers.machine).stack;
  return position.knows(stack) && saved_at < position.registers.words[stack];
}

// DWARF expressions, as call frame information uses them (DWARF 5, 2.5 and 6.4.2).

/// What the operations leave on top of their stack. `first`: what is there before the first of
/// them; null: nothing. Errors: truncated (a word beyond the copy of the stack), no_rule (an
/// operation that CFI does not use, a register whose value is lost, too many steps).
tl::expected<std::uint64_t, End> evaluate(std::span<const std::byte> operations,
                                          const Position& position, const Stack& stack,
                                          const std::uint64_t* first);

// From a frame to its caller's, by a whole Row.

/// The registers of the caller; those whose value is lost or beyond the copy of the stack are not
/// known. The pc and the stack pointer always are. Errors: outermost (there is no caller),
/// truncated, no_rule (the row needs what is not known).
tl::expected<Position, End> restore(const Row& row, const Position& position, const Stack& stack);

}  // namespace vitrine::unwind
