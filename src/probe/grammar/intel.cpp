#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "probe/grammar/expression.hpp"
#include "probe/grammar/machines.hpp"
#include "probe/grammar/x86.hpp"

namespace vitrine::probe {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

class Intel {
 public:
  Intel(std::string_view text, Machine machine) : cursor_(text), machine_(machine) {}

  Parsed<OperandText> parse() { return complete(parse_operand(), cursor_); }

 private:
  Parsed<OperandText> parse_operand() {
    const bool sized = take_width();
    if (!sized && take_offset()) return parse_constant();
    OperandText operand;
    operand.kind = OperandText::Kind::memory;
    const auto segment = TRY(take_segment(operand));
    if (!sized && !segment) {
      if (const auto name = register_ahead(); !name.empty()) return parse_register(name);
    }
    if (cursor_.skip_blanks().peek() != '[') {
      operand.sum = TRY(take_expression(cursor_));
    }
    if (cursor_.skip_blanks().peek() == '[') return parse_brackets(operand);
    // A number by itself is one; a symbol by itself is memory, as in AT&T.
    if (!sized && !segment && !operand.sum.symbol) operand.kind = OperandText::Kind::constant;
    return operand;
  }

  /// `DWORD PTR`: the argument's own size says as much.
  bool take_width() {
    Cursor ahead = cursor_;
    const std::string width = lower(ahead.take_name());
    constexpr std::string_view known[] = {"byte",  "word",    "dword",   "fword", "qword",
                                          "tbyte", "xmmword", "ymmword", "oword"};
    if (std::find(std::begin(known), std::end(known), width) == std::end(known)) return false;
    if (!ahead.take_word("ptr")) return false;
    cursor_ = ahead;
    return true;
  }

  bool take_offset() {
    if (!cursor_.take_word("offset")) return false;
    Cursor ahead = cursor_;
    if (ahead.take_word("flat") && ahead.take(":")) cursor_ = ahead;
    return true;
  }

  Parsed<OperandText> parse_constant() {
    const auto sum = TRY(take_expression(cursor_));
    OperandText operand;
    operand.sum = sum;
    return operand;
  }

  Parsed<OperandText> parse_register(std::string_view name) {
    const auto found = TRY(x86_register(name, machine_));
    OperandText operand;
    operand.kind = OperandText::Kind::value;
    operand.base = found;
    cursor_.take_name();
    return operand;
  }

  /// The name of a register, if one comes.
  std::string register_ahead() {
    Cursor ahead = cursor_;
    std::string name = lower(ahead.take_name());
    return is_x86_register(name, machine_) ? name : std::string();
  }

  /// `fs:`. Whether there was one.
  Parsed<bool> take_segment(OperandText& operand) {
    Cursor ahead = cursor_;
    const std::string segment = lower(ahead.take_name());
    if (!ahead.take(":")) return false;
    cursor_ = ahead;
    if (segment == (machine_ == Machine::i386 ? "gs" : "fs"))
      operand.thread_pointer = true;
    else if (segment == "fs" || segment == "gs")
      return unsupported(fmt::format("the base of the segment {} is unknown", segment));
    else if (segment != "cs" && segment != "ds" && segment != "es" && segment != "ss")
      return syntax_error(fmt::format("no such segment: {}", quoted(segment)));
    return true;
  }

  /// One or more of `[…]`, whose terms all add up.
  Parsed<OperandText> parse_brackets(OperandText operand) {
    bool instruction_pointer = false;
    while (cursor_.take("[")) {
      bool negative = false;
      do {
        TRY(parse_term(operand, negative, instruction_pointer));
        negative = cursor_.skip_blanks().peek() == '-';
      } while (cursor_.take("+") || cursor_.take("-"));
      if (!cursor_.take("]")) return syntax_error("missing closing bracket");
    }
    if (!instruction_pointer) return operand;
    if (operand.base || operand.index)
      return syntax_error("a register beside the instruction pointer");
    if (!operand.sum.symbol)
      return unsupported("it is relative to the instruction pointer, but names no symbol");
    operand.symbol_is_place = true;
    return operand;
  }

  Parsed<void> parse_term(OperandText& operand, bool negative, bool& instruction_pointer) {
    std::uint64_t factor = 1;
    bool scaled = false;
    cursor_.skip_blanks();
    if (Cursor::is_digit(cursor_.peek())) {  // `8`, or `8*rcx`
      const auto number = TRY(take_number(cursor_));
      if (!cursor_.take("*")) {
        operand.sum.value += negative ? 0 - number : number;
        return {};
      }
      factor = number;
      scaled = true;
    }
    const std::string name = register_ahead();
    if (name.empty()) return parse_symbol(operand, negative || scaled);
    const auto found = TRY(x86_register(name, machine_));
    cursor_.take_name();
    if (negative) return syntax_error("a negated register");
    if (found.number == x86_instruction_pointer) {
      instruction_pointer = true;
      return {};
    }
    if (cursor_.take("*")) {
      const auto number = take_number(cursor_);
      if (!number || scaled) return syntax_error("a register with more than one scale");
      factor = *number;
      scaled = true;
    }
    return add_register(operand, found, scaled, factor);
  }

  static Parsed<void> add_register(OperandText& operand, Register found, bool scaled,
                                   std::uint64_t factor) {
    if (!scaled && !operand.base) {
      operand.base = found;
      return {};
    }
    if (operand.index) return syntax_error("more than two registers");
    const auto scale = TRY(x86_scale(factor));
    operand.index = found;
    operand.scale = scale;
    return {};
  }

  Parsed<void> parse_symbol(OperandText& operand, bool refused) {
    if (refused || operand.sum.symbol || cursor_.peek() == '-' || cursor_.peek() == '[')
      return syntax_error(fmt::format("{} is not a term of an address", quoted(cursor_.rest())));
    // Only the symbol itself: what is added to it may be a register.
    Cursor rest = cursor_;
    rest.take_name();
    if (rest.take("@")) rest.take_name();
    const std::size_t size = cursor_.rest().size() - rest.rest().size();
    Cursor symbol(cursor_.rest().substr(0, size));
    const auto sum = TRY(take_expression(symbol));
    cursor_.skip(size);
    operand.sum.symbol = sum.symbol;
    operand.sum.value += sum.value;
    return {};
  }

  Cursor cursor_;
  Machine machine_;
};

}  // namespace

Parsed<OperandText> parse_intel(std::string_view text, Machine machine) {
  return Intel(text, machine).parse();
}

}  // namespace vitrine::probe
