#include "usdt/machine.hpp"

#include <elf.h>

#include <array>
#include <cstring>

namespace vitrine::usdt {
namespace {

constexpr std::byte b(unsigned value) {
  return static_cast<std::byte>(value);
}

constexpr std::array endbr64{b(0xf3), b(0x0f), b(0x1e), b(0xfa)};
constexpr std::array endbr32{b(0xf3), b(0x0f), b(0x1e), b(0xfb)};
constexpr std::array bti_c{b(0x5f), b(0x24), b(0x03), b(0xd5)};

constexpr std::uint32_t x86_features = 0xc0000002;      // GNU_PROPERTY_X86_FEATURE_1_AND
constexpr std::uint32_t aarch64_features = 0xc0000000;  // GNU_PROPERTY_AARCH64_FEATURE_1_AND

const std::array<ObjectMachine, 3> machines{{
    {Machine::x86_64, "x86-64", EM_X86_64, true, true, R_X86_64_PC64, R_X86_64_PC32, x86_features,
     endbr64},
    {Machine::i386, "i386", EM_386, false, false, R_386_PC32, R_386_PC32, x86_features, endbr32},
    {Machine::aarch64, "aarch64", EM_AARCH64, true, true, R_AARCH64_PREL64, R_AARCH64_PREL32,
     aarch64_features, bti_c},
}};

constexpr std::uint32_t aarch64_null = 256;  // R_AARCH64_NONE of the first drafts of the ABI

std::optional<Branch> x86_branch(std::span<const std::byte> code, std::uint64_t offset,
                                 std::int64_t addend) {
  if (addend != -4 || offset < 1 || offset > code.size() || code.size() - offset < 4) return {};
  const std::size_t start = static_cast<std::size_t>(offset) - 1;
  if (code[start] == b(0xe8)) return Branch{dof::Instruction::call, start};
  if (code[start] == b(0xe9)) return Branch{dof::Instruction::jump, start};
  return {};
}

std::optional<Branch> aarch64_branch(std::span<const std::byte> code, std::uint64_t offset,
                                     std::int64_t addend) {
  if (addend != 0 || offset % 4 != 0 || offset > code.size() || code.size() - offset < 4) return {};
  const std::size_t start = static_cast<std::size_t>(offset);
  std::uint32_t instruction = 0;
  std::memcpy(&instruction, &code[start], sizeof instruction);
  const std::uint32_t opcode = instruction & 0xfc000000;
  if (opcode == 0x94000000) return Branch{dof::Instruction::call, start};
  if (opcode == 0x14000000) return Branch{dof::Instruction::jump, start};
  return {};
}

}  // namespace

const ObjectMachine* find_machine(std::uint16_t elf, bool wide) {
  for (const ObjectMachine& machine : machines)
    if (machine.elf == elf && machine.wide == wide) return &machine;
  return nullptr;
}

static_assert(R_X86_64_PC32 == R_386_PC32 && R_X86_64_PLT32 == R_386_PLT32);

std::optional<Branch> direct_branch(const ObjectMachine& machine, std::span<const std::byte> code,
                                    std::uint64_t offset, std::uint32_t type, std::int64_t addend) {
  switch (machine.machine) {
    case Machine::x86_64:  // its PC32 and PLT32 have the same numbers
    case Machine::i386:
      if (type != R_386_PC32 && type != R_386_PLT32) return {};
      return x86_branch(code, offset, addend);
    case Machine::aarch64:
      if (type != R_AARCH64_CALL26 && type != R_AARCH64_JUMP26) return {};
      return aarch64_branch(code, offset, addend);
    default:
      return {};
  }
}

std::optional<std::size_t> patched_start(const ObjectMachine& machine, std::uint64_t offset) {
  if (machine.machine == Machine::aarch64) return static_cast<std::size_t>(offset);
  if (offset == 0) return {};
  return static_cast<std::size_t>(offset) - 1;
}

bool does_nothing(const ObjectMachine& machine, std::uint32_t type) {
  return type == 0 || (machine.machine == Machine::aarch64 && type == aarch64_null);
}

bool takes_address(const ObjectMachine& machine, std::uint32_t type) {
  switch (machine.machine) {
    case Machine::x86_64:
      // Not COPY to RELATIVE, the TLS ones, and IRELATIVE with what follows it.
      return (type >= R_X86_64_64 && type <= R_X86_64_PLT32) || type == R_X86_64_GOTPCREL ||
             (type >= R_X86_64_32 && type <= R_X86_64_PC8) ||
             (type >= R_X86_64_PC64 && type <= R_X86_64_PLTOFF64) || type >= R_X86_64_GOTPCRELX;
    case Machine::i386:
      return (type >= R_386_32 && type <= R_386_PLT32) || type == R_386_GOTOFF ||
             type == R_386_GOT32X || (type >= R_386_16 && type <= R_386_PC8);
    case Machine::aarch64:
      return type >= R_AARCH64_ABS64 && type < R_AARCH64_TLSGD_ADR_PREL21;
    default:
      return false;
  }
}

}  // namespace vitrine::usdt
