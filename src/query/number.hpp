// Numbers as targets have them: compared as mathematics does, whatever their types.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "probe/evaluate.hpp"

namespace vitrine::query {

using Number = std::variant<std::int64_t, std::uint64_t, double>;

/// Exact: -1 is less than the largest uint64_t, and 2^53 + 1 is more than 2^53 as a double.
std::partial_ordering compare(const Number& left, const Number& right);

/// Exact while 64 bits hold it, then as a double.
Number add(const Number& left, const Number& right);

/// As int64_t where that holds it: numbers are equal as Number only in one type.
Number narrowest(std::uint64_t number);

double to_double(const Number& number);

/// All of `text` as a number: 17, -3, 0x1f, 2.5, 1e9. Digits may be parted: 1_000_000.
std::optional<Number> parse_number(std::string_view text);

/// The number that a value is, if it is one: true is 1, a pointer is its address, an enumerator its
/// value; text that reads as a number is that number.
std::optional<Number> number_of(const probe::Value& value);

}  // namespace vitrine::query
