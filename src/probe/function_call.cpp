#include "probe/function_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/memory.hpp"

namespace vitrine::probe {
namespace {

constexpr std::string_view in_vector =
    "? it is in a vector register, which the kernel does not provide";

struct RegisterWidths {
  std::string_view wide, half, quarter, byte;
};

/// By DWARF's numbers.
constexpr std::array<RegisterWidths, 16> x86_64_names{{{"rax", "eax", "ax", "al"},
                                                       {"rdx", "edx", "dx", "dl"},
                                                       {"rcx", "ecx", "cx", "cl"},
                                                       {"rbx", "ebx", "bx", "bl"},
                                                       {"rsi", "esi", "si", "sil"},
                                                       {"rdi", "edi", "di", "dil"},
                                                       {"rbp", "ebp", "bp", "bpl"},
                                                       {"rsp", "esp", "sp", "spl"},
                                                       {"r8", "r8d", "r8w", "r8b"},
                                                       {"r9", "r9d", "r9w", "r9b"},
                                                       {"r10", "r10d", "r10w", "r10b"},
                                                       {"r11", "r11d", "r11w", "r11b"},
                                                       {"r12", "r12d", "r12w", "r12b"},
                                                       {"r13", "r13d", "r13w", "r13b"},
                                                       {"r14", "r14d", "r14w", "r14b"},
                                                       {"r15", "r15d", "r15w", "r15b"}}};
constexpr std::array<RegisterWidths, 8> i386_names{{{"eax", "eax", "ax", "al"},
                                                    {"ecx", "ecx", "cx", "cl"},
                                                    {"edx", "edx", "dx", "dl"},
                                                    {"ebx", "ebx", "bx", "bl"},
                                                    {"esp", "esp", "sp", "sp"},
                                                    {"ebp", "ebp", "bp", "bp"},
                                                    {"esi", "esi", "si", "si"},
                                                    {"edi", "edi", "di", "di"}}};
constexpr std::array<std::uint8_t, 6> x86_64_order{5, 4, 1, 2, 8, 9};
constexpr std::array<std::uint8_t, 9> x86_64_go_order{0, 3, 2, 5, 4, 8, 9, 10, 11};
constexpr std::size_t aarch64_order = 8, aarch64_go_order = 16, vector_registers = 8;

std::string register_text(const RegisterWidths& names, std::uint8_t bytes) {
  const std::string_view name = bytes >= 8   ? names.wide
                                : bytes == 4 ? names.half
                                : bytes == 2 ? names.quarter
                                             : names.byte;
  return fmt::format("%{}", name);
}

std::string operand_size(const PassedValue& value) {
  return fmt::format("{}{}@", value.is_signed ? "-" : "", value.bytes);
}

std::uint64_t stack_word(Machine machine) {
  return machine == Machine::i386 ? 4 : 8;
}

}  // namespace

FunctionCall::FunctionCall(Machine machine) : machine_(machine) {}

std::string FunctionCall::in_register(std::uint8_t number, const PassedValue& value) const {
  if (machine_ == Machine::aarch64) {
    if (number < 31)
      return fmt::format("{}{}{}", operand_size(value), value.bytes > 4 ? 'x' : 'w', number);
    return std::string(number >= 64 ? in_vector : "? its register is not known");
  }
  if (machine_ == Machine::x86_64 && number < x86_64_names.size())
    return operand_size(value) + register_text(x86_64_names[number], value.bytes);
  if (machine_ == Machine::i386 && number < i386_names.size() && value.bytes <= 4)
    return operand_size(value) + register_text(i386_names[number], value.bytes);
  return std::string(in_vector);
}

std::string FunctionCall::constant(std::uint64_t number, const PassedValue& value) const {
  const char* const sign = machine_ == Machine::aarch64 ? "" : "$";
  return fmt::format("{}{}{}", operand_size(value), sign, static_cast<std::int64_t>(number));
}

void FunctionCall::on_stack(std::uint64_t size, const PassedValue& value,
                            std::vector<std::string>& words) {
  const std::uint64_t word = stack_word(machine_);
  if (value.is_aligned) stack_ = align_up(stack_, 2 * word);
  for (std::uint64_t at = 0; at < size; at += word) {
    const std::uint64_t place = stack_ + at + pushed_by_call();
    words.push_back(
        operand_size(value) +
        (machine_ == Machine::aarch64
             ? fmt::format("[sp, {}]", place)
             : fmt::format("{}(%{})", place, machine_ == Machine::i386 ? "esp" : "rsp")));
  }
  stack_ += align_up(size, word);
}

std::vector<std::string> FunctionCall::next(const PassedValue& value) {
  const std::size_t have = machine_ == Machine::x86_64    ? x86_64_order.size()
                           : machine_ == Machine::aarch64 ? aarch64_order
                                                          : 0;
  const std::size_t have_vectors = machine_ == Machine::i386 ? 0 : vector_registers;
  std::vector<std::string> words;
  const std::uint64_t word = stack_word(machine_);
  const std::uint64_t bytes = value.words + value.vectors == 1
                                  ? std::max<std::uint64_t>(value.bytes, word)
                                  : word * (std::uint64_t{value.words} + value.vectors);
  if (value.words + value.vectors == 0) return {"? it has no value"};
  const bool fits = !value.in_memory && integers_ + value.words <= have &&
                    vectors_ + value.vectors <= have_vectors;
  if (!fits) {
    // On aarch64 nothing goes into a register behind what did not fit into one.
    if (machine_ == Machine::aarch64 && value.words > 0) integers_ = have;
    if (machine_ == Machine::aarch64 && value.vectors > 0) vectors_ = have_vectors;
    on_stack(bytes, value, words);
    if (value.vectors > 0 && value.words == 0)
      words.assign(words.size(), "? it is a floating-point number on the stack");
    return words;
  }
  if (machine_ == Machine::aarch64 && value.is_aligned && value.words == 2)
    integers_ = (integers_ + 1) / 2 * 2;
  for (std::uint8_t i = 0; i < value.words; ++i) {
    const auto number = static_cast<std::uint8_t>(
        machine_ == Machine::aarch64 ? integers_ : x86_64_order.at(integers_));
    words.push_back(in_register(number, value));
    ++integers_;
  }
  for (std::uint8_t i = 0; i < value.vectors; ++i) words.emplace_back(in_vector);
  vectors_ += value.vectors;
  return words;
}

std::string FunctionCall::result(const PassedValue& value, std::size_t index) const {
  if (value.vectors > 0 && value.words == 0) return std::string(in_vector);
  if (machine_ == Machine::aarch64) return in_register(static_cast<std::uint8_t>(index), value);
  if (machine_ == Machine::i386 && value.bytes > 4) return "? it is in two registers";
  return in_register(index == 0 ? 0 : machine_ == Machine::i386 ? 2 : 1, value);
}

std::vector<std::string> FunctionCall::registers(bool go) const {
  std::vector<std::string> all;
  const PassedValue word;
  if (machine_ == Machine::aarch64)
    for (std::uint8_t i = 0; i < (go ? aarch64_go_order : aarch64_order); ++i)
      all.push_back(in_register(i, word));
  else if (machine_ == Machine::x86_64 && go)
    for (const std::uint8_t number : x86_64_go_order) all.push_back(in_register(number, word));
  else if (machine_ == Machine::x86_64)
    for (const std::uint8_t number : x86_64_order) all.push_back(in_register(number, word));
  else if (machine_ == Machine::i386)
    for (int i = 1; i <= 4; ++i) all.push_back(fmt::format("4@{}(%esp)", 4 * i));
  return all;
}

std::string FunctionCall::stack_pointer() const {
  if (machine_ == Machine::aarch64) return "8@sp";
  return machine_ == Machine::i386 ? "4@%esp" : "8@%rsp";
}

std::uint64_t FunctionCall::pushed_by_call() const {
  return machine_ == Machine::aarch64 ? 0 : stack_word(machine_);
}

}  // namespace vitrine::probe
