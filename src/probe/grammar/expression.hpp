// Constant expressions of assemblers: `-24`, `0x10`, `arr+4`, `-4+arr`, `8*(3+1)`, `f@GOTPCREL`.
#pragma once

#include "probe/grammar/cursor.hpp"
#include "probe/grammar/operand_text.hpp"

namespace vitrine::probe {

/// Takes the longest expression that comes. What follows `@` says which part of the symbol is meant.
Parsed<Sum> take_expression(Cursor& cursor);

/// Takes an unsigned number: decimal, 0x hexadecimal or 0 octal. Error: none, or beyond 64 bits.
Parsed<std::uint64_t> take_number(Cursor& cursor);

/// Takes a number with a fraction or an exponent (`1.5e+0`); nullopt when there is none.
std::optional<double> take_real(Cursor& cursor);

/// For messages: the text, escaped and cut to a line.
std::string quoted(std::string_view text);

}  // namespace vitrine::probe
