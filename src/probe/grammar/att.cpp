#include <fmt/format.h>

#include "probe/grammar/expression.hpp"
#include "probe/grammar/machines.hpp"
#include "probe/grammar/x86.hpp"

namespace vitrine::probe {
namespace {

class Att {
 public:
  Att(std::string_view text, Machine machine) : cursor_(text), machine_(machine) {}

  Parsed<OperandText> parse() { return complete(parse_operand(), cursor_); }

 private:
  Parsed<OperandText> parse_operand() {
    OperandText operand;
    if (cursor_.take("$")) {
      operand.sum = TRY(take_expression(cursor_));
      return operand;
    }
    if (cursor_.skip_blanks().peek() == '%') {
      const std::string_view rest = cursor_.rest();
      const std::size_t end = rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz", 1);
      if (end == rest.npos || rest[end] != ':') return parse_register();
      const std::string_view segment = rest.substr(1, end - 1);
      cursor_.skip(end + 1);
      TRY(take_segment(segment, operand));
    }
    return parse_memory(operand);
  }

  Parsed<OperandText> parse_register() {
    const auto name = TRY(take_register());
    OperandText operand;
    operand.kind = OperandText::Kind::value;
    operand.base = name;
    return operand;
  }

  /// %fs has the thread pointer in 64-bit programs, %gs in 32-bit ones; the others' bases are 0.
  Parsed<void> take_segment(std::string_view segment, OperandText& operand) {
    const std::string_view threads = machine_ == Machine::i386 ? "gs" : "fs";
    if (segment == threads)
      operand.thread_pointer = true;
    else if (segment == "fs" || segment == "gs")
      return unsupported(fmt::format("the base of the segment {} is unknown", segment));
    else if (segment != "cs" && segment != "ds" && segment != "es" && segment != "ss")
      return syntax_error(fmt::format("no such segment: {}", quoted(segment)));
    return {};
  }

  Parsed<OperandText> parse_memory(OperandText operand) {
    operand.kind = OperandText::Kind::memory;
    cursor_.skip_blanks();
    const bool displaced = !begins_registers();
    if (displaced) {
      operand.sum = TRY(take_expression(cursor_));
    }
    if (!cursor_.take("(")) return operand;
    TRY(parse_registers(operand));
    if (!operand.base || operand.base->number != x86_instruction_pointer) return operand;
    if (operand.index) return syntax_error("an index to the instruction pointer");
    if (!operand.sum.symbol)
      return unsupported("it is relative to the instruction pointer, but names no symbol");
    operand.base.reset();  // `x(%rip)` is where x is
    operand.symbol_is_place = true;
    return operand;
  }

  /// `(%rax…` and `(,%rax…`, other than `(8+4)`.
  [[nodiscard]] bool begins_registers() const {
    Cursor ahead = cursor_;
    return ahead.take("(") && (ahead.take("%") || ahead.take(","));
  }

  Parsed<void> parse_registers(OperandText& operand) {
    if (cursor_.skip_blanks().peek() == '%') {
      operand.base = TRY(take_register());
    }
    if (cursor_.take(",")) {
      const auto index = TRY(take_register());
      if (index.number == x86_stack_pointer || index.number == x86_instruction_pointer)
        return syntax_error("this register cannot be an index");
      operand.index = index;
      if (cursor_.take(",")) {
        const auto factor = TRY(take_number(cursor_));
        operand.scale = TRY(x86_scale(factor));
      }
    }
    if (!cursor_.take(")")) return syntax_error("missing closing parenthesis");
    if (!operand.base && !operand.index) return syntax_error("parentheses without a register");
    return {};
  }

  Parsed<Register> take_register() {
    if (!cursor_.take("%"))
      return syntax_error(
          fmt::format("a register was expected instead of {}", quoted(cursor_.rest())));
    std::string_view name = cursor_.take_name();
    if (name == "st" && cursor_.peek() == '(') return unsupported("an x87 register");
    return x86_register(name, machine_);
  }

  Cursor cursor_;
  Machine machine_;
};

}  // namespace

Parsed<OperandText> parse_att(std::string_view text, Machine machine) {
  return Att(text, machine).parse();
}

}  // namespace vitrine::probe
