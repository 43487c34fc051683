#include <fmt/format.h>

#include "probe/grammar/expression.hpp"
#include "probe/grammar/machines.hpp"

namespace vitrine::probe {
namespace {

std::optional<Register> arm_register(std::string_view name) {
  constexpr std::pair<std::string_view, std::uint8_t> named[] = {
      {"fp", 11}, {"ip", 12}, {"sp", 13}, {"lr", 14}, {"pc", 15}, {"sl", 10}, {"sb", 9}};
  for (const auto& [alias, number] : named)
    if (alias == name) return Register{number, 4};
  return numbered_register(name, "r", 15, 4);
}

bool is_arm_vector_register(std::string_view name) {
  return numbered_register(name, "d", 31, 8) || numbered_register(name, "q", 15, 16) ||
         numbered_register(name, "s", 31, 4);
}

class Arm {
 public:
  explicit Arm(std::string_view text) : cursor_(text) {}

  Parsed<OperandText> parse() {
    return complete(cursor_.take("[") ? parse_memory() : parse_value(), cursor_);
  }

 private:
  Parsed<OperandText> parse_value() {
    if (cursor_.skip_blanks().peek() == '#') return parse_constant(cursor_);
    Cursor ahead = cursor_;
    const std::string_view name = ahead.take_name();
    OperandText operand;
    if (const auto found = arm_register(name)) {
      cursor_ = ahead;
      operand.kind = OperandText::Kind::value;
      operand.base = *found;
      return operand;
    }
    if (is_arm_vector_register(name))
      return unsupported(
          fmt::format("{} is a vector register: the kernel does not provide it", name));
    // Without # a label: memory near the code.
    const auto sum = TRY(take_expression(cursor_));
    if (!sum.symbol) return syntax_error("a number without #");
    operand.kind = OperandText::Kind::memory;
    operand.sum = sum;
    operand.symbol_is_place = true;
    return operand;
  }

  Parsed<OperandText> parse_memory() {
    OperandText operand;
    operand.kind = OperandText::Kind::memory;
    const std::string_view name = cursor_.take_name();
    operand.base = arm_register(name);
    if (!operand.base)
      return syntax_error(
          fmt::format("an address that begins with {}, not a register", quoted(name)));
    if (cursor_.take(",")) {
      TRY(parse_index(operand));
    }
    if (!cursor_.take("]")) return syntax_error("missing closing bracket");
    cursor_.take("!");
    return operand;
  }

  Parsed<void> parse_index(OperandText& operand) {
    if (cursor_.take("#")) {
      operand.sum = TRY(take_expression(cursor_));
      return {};
    }
    if (cursor_.take("-")) return unsupported("an index that is subtracted");
    const std::string_view name = cursor_.take_name();
    operand.index = arm_register(name);
    if (!operand.index) return syntax_error(fmt::format("{} is not a register", quoted(name)));
    if (!cursor_.take(",")) return {};
    if (!cursor_.take_word("lsl") || !cursor_.take("#"))
      return unsupported("an index that is not shifted to the left");
    const auto shift = TRY(take_number(cursor_));
    if (shift > 4) return unsupported(fmt::format("an index shifted by {}", shift));
    operand.scale = static_cast<std::uint8_t>(shift);
    return {};
  }

  Cursor cursor_;
};

}  // namespace

Parsed<OperandText> parse_arm(std::string_view text) {
  return Arm(text).parse();
}

}  // namespace vitrine::probe
