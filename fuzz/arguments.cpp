// A list of arguments of any machine: {u8 machine}{text}.
#include "base/limits.hpp"
#include "input.hpp"
#include "probe/argument.hpp"
#include "probe/evaluate.hpp"

using namespace vitrine;

namespace {

struct AnySymbols final : probe::OperandSymbols {
  tl::expected<Address, probe::ArgumentError> address(std::string_view name) override {
    fuzz::require(!name.empty() && name.size() <= limits::name_bytes);
    return fuzz::base;
  }
  tl::expected<Address, probe::ArgumentError> got_slot(std::string_view name) override {
    return address(name);
  }
  tl::expected<std::int64_t, probe::ArgumentError> thread_offset(std::string_view) override {
    return -8;
  }
};

void compile(std::string_view text, Machine machine, Memory& memory) {
  AnySymbols symbols;
  for (probe::OperandSymbols* known : {static_cast<probe::OperandSymbols*>(&symbols),
                                       static_cast<probe::OperandSymbols*>(nullptr)}) {
    const auto operand = probe::compile_argument(text, machine, 0x1000, known);
    if (!operand) {
      fuzz::require(!operand.error().message.empty() && operand.error().message.size() < 1024);
      continue;
    }
    fuzz::require(operand->size >= 1 && operand->size <= VITRINE_OPERAND_BYTES);
    fuzz::require(operand->base <= VITRINE_NO_REGISTER && operand->index <= VITRINE_NO_REGISTER);
    fuzz::require(operand->scale <= 4 && operand->extend <= VITRINE_EXTEND_S32);
    fuzz::require(operand->kind >= VITRINE_CONSTANT && operand->kind <= VITRINE_MEMORY);
    probe::Registers registers;
    registers.words.fill(fuzz::base);
    const auto bytes = probe::evaluate(*operand, registers, memory);
    if (!bytes) continue;
    fuzz::require(bytes->size() == operand->size);
    (void)probe::make_value(*operand, *bytes, nullptr);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr int machines = static_cast<int>(Machine::other) + 1;
  const auto machine = static_cast<Machine>(*data % machines);
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  fuzz::RegionMemory memory(fuzz::base, fuzz::bytes(data, size));
  for (const std::string& argument : probe::split_arguments(text)) {
    fuzz::require(!argument.empty());
    compile(argument, machine, memory);
  }
  compile(text, machine, memory);
  return 0;
}
