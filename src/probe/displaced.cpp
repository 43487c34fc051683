// The machines whose memory operands are `displacement(base)`: ppc64, s390x, riscv64; and
// loongarch64, which writes `base, displacement`.
#include <fmt/format.h>

#include <string>

#include "probe/expression.hpp"
#include "probe/machines.hpp"

namespace vitrine::probe {
namespace {

using RegisterNames = std::optional<Register> (*)(std::string_view);

std::optional<Register> ppc64_register(std::string_view name) {
  if (const auto found = numbered_register(name, "r", 31, 8)) return found;
  return numbered_register(name, "", 31, 8);  // the bare number is the usual spelling
}

std::optional<Register> s390x_register(std::string_view name) {
  return numbered_register(name, "r", 15, 8);
}

std::optional<Register> riscv64_register(std::string_view name) {
  constexpr std::pair<std::string_view, std::uint8_t> named[] = {{"zero", 0}, {"ra", 1}, {"sp", 2},
                                                                 {"gp", 3},   {"tp", 4}, {"fp", 8}};
  for (const auto& [alias, number] : named)
    if (alias == name) return Register{number, 8};
  if (const auto found = numbered_register(name, "x", 31, 8)) return found;
  // s0 and s1 come before the arguments, the others behind them; so do the temporaries.
  struct Range {
    std::string_view prefix;
    unsigned first, last;
    int shift;
  };
  constexpr Range ranges[] = {
      {"a", 0, 7, 10}, {"s", 0, 1, 8}, {"s", 2, 11, 16}, {"t", 0, 2, 5}, {"t", 3, 6, 25}};
  for (const Range& range : ranges) {
    const auto found = numbered_register(name, range.prefix, range.last, 8);
    if (found && found->number >= range.first)
      return Register{static_cast<std::uint8_t>(found->number + range.shift), 8};
  }
  return std::nullopt;
}

/// Whether it is the name of a floating-point or vector register, of which the kernel shows no probe
/// anything.
bool is_float_register(std::string_view name) {
  for (const std::string_view prefix : {"fa", "fs", "ft", "f", "vs", "v"})
    if (numbered_register(name, prefix, 63, 8)) return true;
  return false;
}

Parsed<Register> take_register(Cursor& cursor, RegisterNames find) {
  cursor.take("%");
  const std::string_view name = cursor.take_name();
  if (const auto found = find(name)) return *found;
  if (is_float_register(name))
    return unsupported(
        fmt::format("{} is a floating-point register: the kernel does not provide it", name));
  return syntax_error(fmt::format("no such register: {}", quoted(name)));
}

OperandText in_register(Register found) {
  OperandText operand;
  operand.kind = OperandText::Kind::value;
  operand.base = found;
  return operand;
}

/// `(base)` or `(index,base)`, after the displacement. Where `zero_means_none`, register 0 reads
/// as 0.
Parsed<void> take_registers(Cursor& cursor, OperandText& operand, RegisterNames find,
                            bool zero_means_none) {
  operand.kind = OperandText::Kind::memory;
  for (auto* slot : {&operand.base, &operand.index}) {
    const auto found = TRY(take_register(cursor, find));
    if (found.number != 0 || !zero_means_none) *slot = found;
    if (!cursor.take(",")) break;
  }
  if (!cursor.take(")")) return syntax_error("missing closing parenthesis");
  return {};
}

/// `5`, `-16(%r15)`, `0(%r2,%r3)`.
Parsed<OperandText> take_displaced(Cursor& cursor, RegisterNames find, bool zero_means_none) {
  auto operand = parse_constant(cursor);
  if (!operand || !cursor.take("(")) return operand;
  TRY(take_registers(cursor, *operand, find, zero_means_none));
  return operand;
}

/// `%lo(x)(a5)`: the register has the rest of x's address.
Parsed<OperandText> take_riscv_low_part(Cursor& cursor) {
  const bool thread = cursor.take("%tprel_lo");
  if (!thread && !cursor.take("%lo"))
    return unsupported(fmt::format("the relocation {}", quoted(cursor.rest())));
  if (!cursor.take("(")) return syntax_error("a relocation without an operand");
  const auto sum = TRY(take_expression(cursor));
  if (!sum.symbol || !cursor.take(")")) return syntax_error("a relocation without a symbol");
  if (!cursor.take("(")) return unsupported("a part of an address");
  OperandText operand;
  TRY(take_registers(cursor, operand, riscv64_register, false));
  operand.base.reset();
  operand.sum = sum;
  operand.thread_pointer = thread;
  operand.symbol_is_place = !thread;
  if (thread) operand.sum.symbol->part = SymbolPart::thread_offset;
  return operand;
}

}  // namespace

Parsed<OperandText> parse_ppc64(std::string_view text) {
  Cursor cursor(text);
  if (cursor.skip_blanks().peek() == 'i' &&
      (Cursor::is_digit(cursor.peek(1)) || cursor.peek(1) == '-')) {
    cursor.skip(1);
    return complete(parse_constant(cursor), cursor);
  }
  Cursor ahead = cursor;
  ahead.take("%");
  const auto first = ppc64_register(ahead.take_name());
  if (!first || ahead.skip_blanks().peek() == '(') {
    if (cursor.peek() == '%') {
      TRY(take_register(cursor, ppc64_register));
      return syntax_error("a register for a displacement");
    }
    auto operand = take_displaced(cursor, ppc64_register, true);
    if (operand && operand->kind == OperandText::Kind::constant && !operand->sum.symbol)
      return syntax_error("no register has that number");
    return complete(std::move(operand), cursor);
  }
  cursor = ahead;
  OperandText operand = in_register(*first);
  if (cursor.take(",")) {  // `3,4`: memory at the sum of both
    const auto second = TRY(take_register(cursor, ppc64_register));
    operand.kind = OperandText::Kind::memory;
    if (first->number == 0) operand.base.reset();
    operand.index = second;
  }
  return complete(operand, cursor);
}

Parsed<OperandText> parse_s390x(std::string_view text) {
  Cursor cursor(text);
  if (cursor.skip_blanks().peek() != '%')
    return complete(take_displaced(cursor, s390x_register, true), cursor);
  const auto found = TRY(take_register(cursor, s390x_register));
  return complete(in_register(found), cursor);
}

Parsed<OperandText> parse_riscv64(std::string_view text) {
  Cursor cursor(text);
  if (cursor.skip_blanks().peek() == '%') return complete(take_riscv_low_part(cursor), cursor);
  Cursor ahead = cursor;
  const std::string_view name = ahead.take_name();
  if (riscv64_register(name) || is_float_register(name)) {
    const auto found = TRY(take_register(cursor, riscv64_register));
    if (found.number == 0) return complete(OperandText{}, cursor);  // always 0
    return complete(in_register(found), cursor);
  }
  return complete(take_displaced(cursor, riscv64_register, true), cursor);
}

Parsed<OperandText> parse_loongarch64(std::string_view text) {
  Cursor cursor(text);
  const auto find = [](std::string_view name) -> std::optional<Register> {
    // `$` is a letter of names, so it comes with them.
    return numbered_register(name, "$r", 31, 8);
  };
  if (cursor.skip_blanks().peek() != '$') return complete(parse_constant(cursor), cursor);
  if (is_float_register(Cursor(text).take_name().substr(1)))
    return unsupported("a floating-point register: the kernel does not provide it");
  const auto base = TRY(take_register(cursor, find));
  OperandText operand = in_register(base);
  if (!cursor.take(",")) return complete(operand, cursor);
  operand.kind = OperandText::Kind::memory;
  if (cursor.skip_blanks().peek() == '$') {
    operand.index = TRY(take_register(cursor, find));
    return complete(operand, cursor);
  }
  operand.sum = TRY(take_expression(cursor));
  return complete(operand, cursor);
}

}  // namespace vitrine::probe
