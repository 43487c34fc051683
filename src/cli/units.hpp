// Numbers with units, short enough for a column.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>

#include "query/number.hpp"

namespace vitrine::cli {

/// Whether the user's terminal shows UTF-8, as the locale variables say.
bool shows_utf8();

/// Three digits and a unit: 950ns, 1.23µs (1.23us where `utf8` is false), 45.6ms, 1.20s, 2m05s.
std::string duration_text(double ns, bool utf8);

/// Appends an integer, without a string of its own: events are written by the million.
void append_number(std::string& out, std::integral auto number) {
  const fmt::format_int text(number);
  out.append(text.data(), text.size());
}

/// Integers as they are; fractions with three digits behind the point at most.
std::string number_text(const query::Number& number);

}  // namespace vitrine::cli
