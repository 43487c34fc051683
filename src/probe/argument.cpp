#include "probe/argument.hpp"

#include <fmt/format.h>

#include "base/limits.hpp"
#include "probe/grammar/expression.hpp"
#include "probe/grammar/lower.hpp"
#include "probe/grammar/machines.hpp"
#include "probe/grammar/x86.hpp"

namespace vitrine::probe {
namespace {

/// Larger values are none that a compiler passes.
constexpr std::uint32_t largest_value = 1U << 20;

/// Takes `-4@`, `8f@`. Nullopt: the argument has no size.
Parsed<std::optional<ArgumentSize>> take_size(Cursor& cursor) {
  Cursor ahead = cursor;
  ArgumentSize size;
  size.is_signed = ahead.take("-");
  const std::size_t digits = ahead.rest().find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string_view::npos) return std::nullopt;
  const std::string_view number = ahead.rest().substr(0, digits);
  ahead.skip(digits);
  size.is_float = ahead.take("f");
  if (!ahead.take("@")) return std::nullopt;
  for (const char c : number) {
    size.bytes = size.bytes * 10 + static_cast<std::uint32_t>(c - '0');
    if (size.bytes > largest_value) break;
  }
  if (size.bytes == 0 || size.bytes > largest_value)
    return syntax_error(fmt::format("its size is {} bytes", quoted(number)));
  cursor = ahead;
  return size;
}

constexpr std::size_t longest_reason = 512;  // bytes

Parsed<OperandText> parse_operand(std::string_view text, Machine machine) {
  switch (machine) {
    case Machine::x86_64:
    case Machine::i386:
      return parse_x86(text, machine);
    case Machine::aarch64:
      return parse_aarch64(text);
    case Machine::arm:
      return parse_arm(text);
    case Machine::ppc64:
      return parse_ppc64(text);
    case Machine::s390x:
      return parse_s390x(text);
    case Machine::riscv64:
      return parse_riscv64(text);
    case Machine::loongarch64:
      return parse_loongarch64(text);
    case Machine::other:
      break;
  }
  return unsupported("arguments of this machine are not supported");
}

}  // namespace

tl::expected<vitrine_operand, ArgumentError> compile_argument(std::string_view text,
                                                              Machine machine, Address address,
                                                              OperandSymbols* symbols) {
  if (text.size() > limits::argument_text)
    return syntax_error(fmt::format("it has {} bytes", text.size()));
  Cursor cursor(text);
  const auto size = TRY(take_size(cursor.skip_blanks()));
  if (cursor.skip_blanks().done()) return syntax_error("it has no operand");
  if (cursor.take("?")) {  // call_arguments.cpp writes these; a file's own note may say anything
    const std::string_view why = cursor.skip_blanks().rest();
    if (why.empty()) return syntax_error("it has no operand");
    return unsupported(std::string(why.substr(0, longest_reason)));
  }
  const auto operand = TRY(parse_operand(cursor.rest(), machine));
  return lower(operand, size, machine, address, symbols);
}

}  // namespace vitrine::probe
