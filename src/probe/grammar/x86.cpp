#include "probe/grammar/x86.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <span>

#include "probe/grammar/expression.hpp"

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

}  // namespace vitrine::probe
