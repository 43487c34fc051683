// From an operand as it is written to where its value is.
#pragma once

#include "probe/expression.hpp"

namespace vitrine::probe {

/// What stands before the `@` of an argument.
struct ArgumentSize {
  std::uint32_t bytes = 0;
  bool is_signed = false;
  bool is_float = false;
};

/// `size`: nullopt where the argument has none, which means a register's own width, else a word.
/// `address` is the site's, `symbols` may be null.
Parsed<vitrine_operand> lower(const OperandText& text, std::optional<ArgumentSize> size,
                              Machine machine, Address address, OperandSymbols* symbols);

}  // namespace vitrine::probe
