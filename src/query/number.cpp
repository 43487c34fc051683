#include "query/number.hpp"

#include <charconv>
#include <limits>
#include <string>
#include <utility>

#include "base/characters.hpp"

namespace vitrine::query {
namespace {

// Holds every int64_t, uint64_t and double exactly, so that mixed comparisons are exact too.
static_assert(std::numeric_limits<long double>::digits >= 64);

long double wide(const Number& number) {
  return std::visit([](auto value) { return static_cast<long double>(value); }, number);
}

template <class T>
std::optional<T> whole(std::string_view digits, int base) {
  T value{};
  const auto end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, value, base);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

std::optional<double> fraction(const std::string& digits) {
  double value = 0;
  const auto end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

/// `text` without the underscores between its digits; nothing when one stands elsewhere.
std::optional<std::string> joined(std::string_view text) {
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
      continue;
    }
    const bool between = i > 0 && i + 1 < text.size() && text[i - 1] != '_' && text[i + 1] != '_';
    if (!between) return std::nullopt;
  }
  return digits;
}

}  // namespace

std::partial_ordering compare(const Number& left, const Number& right) {
  return wide(left) <=> wide(right);
}

Number add(const Number& left, const Number& right) {
  if (std::holds_alternative<double>(left) || std::holds_alternative<double>(right))
    return to_double(left) + to_double(right);
  // In 65 bits and more, then back into the narrowest type that holds it.
  const long double sum = wide(left) + wide(right);
  const auto bits = [](const Number& number) {
    return std::holds_alternative<std::int64_t>(number)
               ? static_cast<std::uint64_t>(std::get<std::int64_t>(number))
               : std::get<std::uint64_t>(number);
  };
  const std::uint64_t wrapped = bits(left) + bits(right);
  if (sum < -0x1p63L || sum >= 0x1p64L) return static_cast<double>(sum);
  if (sum >= 0x1p63L) return wrapped;
  return static_cast<std::int64_t>(wrapped);
}

Number narrowest(std::uint64_t number) {
  if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return number;
  return static_cast<std::int64_t>(number);
}

double to_double(const Number& number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

std::optional<Number> parse_number(std::string_view text) {
  constexpr std::size_t longest = 64;  // digits of a number that anybody writes
  if (text.size() > longest) return std::nullopt;
  const auto digits = joined(text);
  if (!digits) return std::nullopt;
  const bool negative = digits->starts_with('-');
  const std::string_view magnitude = std::string_view(*digits).substr(negative ? 1 : 0);
  if (magnitude.empty() || !is_digit(magnitude[0])) return std::nullopt;
  if (magnitude.starts_with("0x") || magnitude.starts_with("0X")) {
    const auto value = whole<std::uint64_t>(magnitude.substr(2), 16);
    if (!value) return std::nullopt;
    if (!negative) return narrowest(*value);
    if (*value > std::uint64_t{1} << 63) return std::nullopt;
    return Number(static_cast<std::int64_t>(0 - *value));
  }
  if (const auto value = whole<std::int64_t>(*digits, 10)) return Number(*value);
  if (const auto value = whole<std::uint64_t>(*digits, 10)) return Number(*value);
  if (const auto value = fraction(*digits)) return Number(*value);
  return std::nullopt;
}

std::optional<Number> number_of(const probe::Value& value) {
  struct Visitor {
    std::optional<Number> operator()(std::int64_t number) const { return number; }
    std::optional<Number> operator()(std::uint64_t number) const { return number; }
    std::optional<Number> operator()(double number) const { return number; }
    std::optional<Number> operator()(bool truth) const { return std::int64_t{truth}; }
    std::optional<Number> operator()(const probe::PointerValue& pointer) const {
      return pointer.address;
    }
    std::optional<Number> operator()(const probe::EnumeratorValue& enumerator) const {
      return enumerator.value;
    }
    std::optional<Number> operator()(const probe::StringValue& string) const {
      return string.truncated ? std::nullopt : parse_number(string.text);
    }
    std::optional<Number> operator()(const probe::BytesValue&) const { return std::nullopt; }
    std::optional<Number> operator()(const probe::ValueError&) const { return std::nullopt; }
  };
  return std::visit(Visitor{}, value);
}

}  // namespace vitrine::query
