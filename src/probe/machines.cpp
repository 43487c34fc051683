#include "probe/machines.hpp"

#include <fmt/format.h>

#include "probe/expression.hpp"

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

namespace {

constexpr std::uint8_t stack_pointer = 31;

bool is_aarch64_vector_register(std::string_view name) {
  if (name.size() < 2 || std::string_view("vqdshbzp").find(name[0]) == name.npos) return false;
  const auto plain = name.substr(0, name.find('.'));  // v0.4s
  return numbered_register(plain, name.substr(0, 1), 31, 16).has_value();
}

struct NamedRegister {
  std::string_view name;
  Register found;
};
constexpr NamedRegister named[] = {{"sp", {stack_pointer, 8}},
                                   {"wsp", {stack_pointer, 4}},
                                   {"lr", {30, 8}},
                                   {"fp", {29, 8}},
                                   {"ip0", {16, 8}},
                                   {"ip1", {17, 8}}};

std::optional<Register> aarch64_register(std::string_view name) {
  for (const NamedRegister& one : named)
    if (one.name == name) return one.found;
  const auto wide = numbered_register(name, "x", 30, 8);
  return wide ? wide : numbered_register(name, "w", 30, 4);
}

class Aarch64 {
 public:
  explicit Aarch64(std::string_view text) : cursor_(text) {}

  Parsed<OperandText> parse() {
    return complete(cursor_.take("[") ? parse_memory() : parse_value(), cursor_);
  }

 private:
  Parsed<OperandText> parse_value() {
    Cursor ahead = cursor_;
    const std::string_view name = ahead.take_name();
    OperandText operand;
    if (const auto found = aarch64_register(name)) {
      cursor_ = ahead;
      operand.kind = OperandText::Kind::value;
      operand.base = *found;
      return operand;
    }
    if (is_aarch64_vector_register(name))
      return unsupported(
          fmt::format("{} is a vector register: the kernel does not provide it to a probe", name));
    if (name == "xzr" || name == "wzr") {
      cursor_ = ahead;
      return operand;
    }
    return parse_constant(cursor_);
  }

  Parsed<OperandText> parse_memory() {
    OperandText operand;
    operand.kind = OperandText::Kind::memory;
    const std::string_view name = cursor_.take_name();
    const auto base = aarch64_register(name);
    if (!base || base->bytes != 8)
      return syntax_error(
          fmt::format("an address that begins with {}, not a 64-bit register", quoted(name)));
    operand.base = *base;
    if (cursor_.take(",")) {
      TRY(parse_index(operand));
    }
    if (!cursor_.take("]")) return syntax_error("missing closing bracket");
    cursor_.take("!");  // the register is not written back until the instruction, which never runs
    return operand;
  }

  Parsed<void> parse_index(OperandText& operand) {
    cursor_.take("#");
    if (cursor_.take(":")) return parse_low_part(operand);
    Cursor ahead = cursor_;
    const auto index = aarch64_register(ahead.take_name());
    if (!index) {
      const auto sum = TRY(take_expression(cursor_));
      if (sum.symbol) return unsupported("a symbol added to a register");
      operand.sum = sum;
      return {};
    }
    cursor_ = ahead;
    operand.index = *index;
    if (!cursor_.take(",")) {
      if (index->bytes != 8) return syntax_error("a 32-bit index without its extension");
      return {};
    }
    return parse_extension(operand);
  }

  Parsed<void> parse_extension(OperandText& operand) {
    const std::string_view name = cursor_.take_name();
    const bool narrow = operand.index->bytes == 4;
    if (name == "uxtw" && narrow)
      operand.extend = VITRINE_EXTEND_U32;
    else if (name == "sxtw" && narrow)
      operand.extend = VITRINE_EXTEND_S32;
    else if ((name != "lsl" && name != "sxtx" && name != "uxtx") || narrow)
      return syntax_error(fmt::format("{} is not an extension of this index", quoted(name)));
    cursor_.take("#");
    if (cursor_.skip_blanks().peek() == ']') return {};
    const auto shift = TRY(take_number(cursor_));
    if (shift > 4) return syntax_error(fmt::format("an index shifted by {}", shift));
    operand.scale = static_cast<std::uint8_t>(shift);
    return {};
  }

  /// `:lo12:x`: the register has the page of x, from an instruction before.
  Parsed<void> parse_low_part(OperandText& operand) {
    const std::string_view part = cursor_.take_name();
    if (!cursor_.take(":")) return syntax_error("a relocation without its end");
    operand.sum = TRY(take_expression(cursor_));
    if (!operand.sum.symbol)
      return syntax_error(fmt::format(":{}: without a symbol", quoted(part)));
    operand.base.reset();
    if (part == "lo12") {
      operand.symbol_is_place = true;
    } else if (part == "got_lo12") {
      operand.symbol_is_place = true;
      operand.sum.symbol->part = SymbolPart::got_slot;
    } else if (part == "tprel_lo12" || part == "tprel_lo12_nc") {
      operand.thread_pointer = true;
      operand.sum.symbol->part = SymbolPart::thread_offset;
    } else {
      return unsupported(fmt::format("the relocation {}", quoted(part)));
    }
    return {};
  }

  Cursor cursor_;
};

}  // namespace

Parsed<OperandText> parse_aarch64(std::string_view text) {
  return Aarch64(text).parse();
}

namespace {

std::optional<Register> arm_register(std::string_view name) {
  constexpr std::pair<std::string_view, std::uint8_t> aliases[] = {
      {"fp", 11}, {"ip", 12}, {"sp", 13}, {"lr", 14}, {"pc", 15}, {"sl", 10}, {"sb", 9}};
  for (const auto& [alias, number] : aliases)
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
