#include "probe/grammar/machines.hpp"

#include <fmt/format.h>

#include "probe/grammar/expression.hpp"

namespace vitrine::probe {

Parsed<OperandText> parse_constant(Cursor& cursor) {
  cursor.take("#");
  OperandText operand;
  if (const auto real = take_real(cursor)) {
    operand.kind = OperandText::Kind::real;
    operand.real = *real;
    return operand;
  }
  operand.sum = TRY(take_expression(cursor));
  return operand;
}

std::optional<Register> numbered_register(std::string_view name, std::string_view prefix,
                                          unsigned last, std::uint8_t bytes) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto digits = name.substr(prefix.size());
  if (digits.empty() || digits.size() > 2 || (digits.size() == 2 && digits[0] == '0'))
    return std::nullopt;
  unsigned number = 0;
  for (const char c : digits) {
    if (!Cursor::is_digit(c)) return std::nullopt;
    number = number * 10 + static_cast<unsigned>(c - '0');
  }
  if (number > last) return std::nullopt;
  return Register{static_cast<std::uint8_t>(number), bytes, 0};
}

Parsed<OperandText> complete(Parsed<OperandText> operand, Cursor& cursor) {
  if (operand && !cursor.skip_blanks().done())
    return syntax_error(fmt::format("unexpected {} after the operand", quoted(cursor.rest())));
  return operand;
}

}  // namespace vitrine::probe
