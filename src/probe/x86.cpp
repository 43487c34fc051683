#include "probe/x86.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <string>

#include "probe/expression.hpp"
#include "probe/machines.hpp"

namespace vitrine::probe {
namespace {

/// The names of one register, by width: 8, 4, 2, 1 bytes, and that of bits 8 to 15.
struct Names {
  std::uint8_t number;
  std::array<std::string_view, 5> names;
};
constexpr std::array<Names, 9> old_registers{{
    {10, {"rax", "eax", "ax", "al", "ah"}},
    {11, {"rcx", "ecx", "cx", "cl", "ch"}},
    {12, {"rdx", "edx", "dx", "dl", "dh"}},
    {5, {"rbx", "ebx", "bx", "bl", "bh"}},
    {13, {"rsi", "esi", "si", "sil", ""}},
    {14, {"rdi", "edi", "di", "dil", ""}},
    {4, {"rbp", "ebp", "bp", "bpl", ""}},
    {x86_stack_pointer, {"rsp", "esp", "sp", "spl", ""}},
    {x86_instruction_pointer, {"rip", "eip", "ip", "", ""}},
}};
constexpr std::array<std::uint8_t, 5> widths{8, 4, 2, 1, 1};

constexpr std::array<std::uint8_t, 8> new_registers{9, 8, 7, 6, 3, 2, 1, 0};

/// r8 to r15, with the suffix of the width.
std::optional<Register> numbered_register(std::string_view name) {
  if (name.size() < 2 || name[0] != 'r' || !Cursor::is_digit(name[1])) return std::nullopt;
  Cursor cursor(name.substr(1));
  unsigned number = 0;
  while (Cursor::is_digit(cursor.peek()) && number < 100) {
    number = number * 10 + static_cast<unsigned>(cursor.peek() - '0');
    cursor.skip(1);
  }
  const std::string_view suffix = cursor.rest();
  const std::uint8_t bytes = suffix.empty()                   ? 8
                             : suffix == "d"                  ? 4
                             : suffix == "w"                  ? 2
                             : suffix == "b" || suffix == "l" ? 1
                                                              : 0;
  if (number < 8 || number > 31 || bytes == 0) return std::nullopt;
  // Those above r15 are beyond what the kernel shows (APX).
  return Register{number <= 15 ? new_registers[number - 8] : std::uint8_t{UINT8_MAX}, bytes, 0};
}

std::optional<Register> find_register(std::string_view name) {
  for (const Names& one : old_registers)
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (!name.empty() && one.names[i] == name)
        return Register{one.number, widths[i], static_cast<std::uint8_t>(i == 4 ? 8 : 0)};
  return numbered_register(name);
}

/// A register of another kind: its kind; else empty.
std::string_view other_kind(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kinds[] = {
      {"xmm", "a vector register"}, {"ymm", "a vector register"}, {"zmm", "a vector register"},
      {"mm", "a vector register"},  {"st", "an x87 register"},    {"k", "a mask register"},
      {"cr", "a control register"}, {"dr", "a debug register"},   {"tmm", "a tile register"}};
  for (const auto& [prefix, kind] : kinds) {
    if (!name.starts_with(prefix)) continue;
    const auto rest = name.substr(prefix.size());
    if (rest.find_first_not_of("0123456789()") == rest.npos && rest.size() <= 3 &&
        (!rest.empty() || prefix == "st"))
      return kind;
  }
  for (const std::string_view segment : {"cs", "ds", "es", "fs", "gs", "ss"})
    if (name == segment) return "a segment register";
  return {};
}

}  // namespace

bool is_x86_register(std::string_view name, Machine machine) {
  if (!other_kind(name).empty()) return true;
  const auto found = find_register(name);
  return found && (machine == Machine::x86_64 || found->bytes < 8);
}

Parsed<Register> x86_register(std::string_view name, Machine machine) {
  if (const auto found = find_register(name)) {
    if (machine == Machine::i386 && (found->bytes == 8 || name[0] == 'r'))
      return syntax_error(fmt::format("i386 has no register {}", quoted(name)));
    if (found->number == UINT8_MAX)
      return unsupported(
          fmt::format("{} is not among the registers that the kernel provides", name));
    return *found;
  }
  if (const auto kind = other_kind(name); !kind.empty())
    return unsupported(
        fmt::format("{} is {}: the kernel does not provide it to a probe", name, kind));
  return syntax_error(fmt::format("no such register: {}", quoted(name)));
}

std::optional<std::uint8_t> x86_high_half(std::uint8_t low) {
  // gcc's order: ax dx cx bx si di bp, and r8 to r15.
  constexpr std::array<std::uint8_t, 7> old_order{10, 12, 11, 5, 13, 14, 4};
  for (const std::span<const std::uint8_t> order :
       {std::span<const std::uint8_t>(old_order), std::span<const std::uint8_t>(new_registers)})
    for (std::size_t i = 0; i + 1 < order.size(); ++i)
      if (order[i] == low) return order[i + 1];
  return std::nullopt;
}

Parsed<std::uint8_t> x86_scale(std::uint64_t factor) {
  if (factor != 1 && factor != 2 && factor != 4 && factor != 8)
    return syntax_error(fmt::format("the scale {} is not 1, 2, 4 or 8", factor));
  return static_cast<std::uint8_t>(std::countr_zero(factor));
}

Parsed<OperandText> parse_x86(std::string_view text, Machine machine) {
  // Only AT&T writes % and $; of what has neither, only `g+8` and `g` are AT&T's: memory at g.
  // Intel's memory has brackets or PTR.
  if (text.find('%') != text.npos || text.starts_with('$')) return parse_att(text, machine);
  return parse_intel(text, machine);
}

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

  /// `DWORD PTR`: the argument's own size has the same information.
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
    take_offset_of_symbol();
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

  /// clang writes `[rip + offset x]`. The word may be a symbol's name, too.
  void take_offset_of_symbol() {
    Cursor ahead = cursor_;
    if (!ahead.take_word("offset")) return;
    Cursor name = ahead;
    if (!name.skip_blanks().take_name().empty()) cursor_ = ahead;
    cursor_.skip_blanks();
  }

  Cursor cursor_;
  Machine machine_;
};

}  // namespace

Parsed<OperandText> parse_intel(std::string_view text, Machine machine) {
  return Intel(text, machine).parse();
}

}  // namespace vitrine::probe
