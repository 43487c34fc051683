#include "usdt/machine.hpp"

#include <elf.h>

#include <array>
#include <cstring>
#include <span>
#include <string_view>

#include "base/memory.hpp"
#include "base/text.hpp"
#include "usdt/object_writer.hpp"

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
    {Machine::x86_64, "x86-64", EM_X86_64, true, true, R_X86_64_PC64, R_X86_64_PC32, R_X86_64_64,
     x86_features, endbr64},
    {Machine::i386, "i386", EM_386, false, false, R_386_PC32, R_386_PC32, R_386_32, x86_features,
     endbr32},
    {Machine::aarch64, "aarch64", EM_AARCH64, true, true, R_AARCH64_PREL64, R_AARCH64_PREL32,
     R_AARCH64_ABS64, aarch64_features, bti_c},
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

const ObjectMachine* find_machine(Machine machine) {
  for (const ObjectMachine& one : machines)
    if (one.machine == machine) return &one;
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

namespace {

struct Triple {
  std::string_view begins;
  std::uint16_t machine;
  bool wide;
};

constexpr Triple triples[] = {
    {"x86_64-", EM_X86_64, true}, {"aarch64-", EM_AARCH64, true}, {"i386-", EM_386, false},
    {"i486-", EM_386, false},     {"i586-", EM_386, false},       {"i686-", EM_386, false},
};

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

bool is_bitcode(std::span<const std::byte> bytes) {
  return text(bytes).starts_with("BC\xc0\xde") || text(bytes).starts_with("\xde\xc0\x17\x0b");
}

const ObjectMachine* bitcode_machine(std::span<const std::byte> bytes) {
  // Names of symbols lie around it without a separator; they have no '-'.
  for (const Triple& triple : triples)
    if (text(bytes).find(triple.begins) != std::string_view::npos)
      return find_machine(triple.machine, triple.wide);
  return nullptr;
}

Stub make_stub(const ObjectMachine& machine, dof::Use use, std::string_view symbol) {
  const auto pattern = dof::pattern_to_write(machine.machine, use, dof::Instruction::stub).value();
  Stub stub;
  stub.code.assign(machine.entry.begin(), machine.entry.end());
  stub.site = static_cast<std::uint32_t>(stub.code.size()) + pattern.site;
  const auto code = std::as_bytes(pattern.code());
  stub.code.insert(stub.code.end(), code.begin(), code.end());
  stub.code.resize(align_up(stub.code.size(), 4));
  stub.data = static_cast<std::uint32_t>(stub.code.size());
  // Without these a linker that folds identical functions would make all stubs one.
  const std::uint64_t id = fnv1a<std::uint64_t>(symbol);
  const auto raw = std::as_bytes(std::span(&id, 1));
  stub.code.insert(stub.code.end(), raw.begin(), raw.end());
  return stub;
}

namespace {

constexpr std::uint8_t encoding = 0x1b;  // DW_EH_PE_pcrel | DW_EH_PE_sdata4

/// From the alignment factors on to the rules at a function's first instruction, which here hold to
/// its last: where the caller's frame is (DW_CFA_def_cfa) and, on x86, the return address in it.
std::span<const std::uint8_t> rules(const ObjectMachine& machine) {
  static constexpr std::uint8_t x86_64[] = {1, 0x78, 16, 1, encoding, 0x0c, 7, 8, 0x90, 1};
  static constexpr std::uint8_t i386[] = {1, 0x7c, 8, 1, encoding, 0x0c, 4, 4, 0x88, 1};
  static constexpr std::uint8_t aarch64[] = {4, 0x78, 30, 1, encoding, 0x0c, 31, 0};
  switch (machine.machine) {
    case Machine::x86_64:
      return x86_64;
    case Machine::i386:
      return i386;
    case Machine::aarch64:
      return aarch64;
    default:
      return {};
  }
}

}  // namespace

StubFrames::StubFrames(const ObjectMachine& machine) : machine_(machine) {
  static constexpr std::uint8_t version_and_augmentation[] = {1, 'z', 'R', 0};
  begin();
  append(bytes_, std::uint32_t{0});  // a CIE
  append(bytes_, version_and_augmentation);
  for (const std::uint8_t one : rules(machine)) append(bytes_, one);
  end();
}

std::uint64_t StubFrames::add(std::uint32_t size) {
  begin();
  append(bytes_, static_cast<std::uint32_t>(bytes_.size()));  // back to the CIE, the first entry
  const std::uint64_t function = bytes_.size();
  append(bytes_, std::uint32_t{0});
  append(bytes_, size);
  append(bytes_, std::uint8_t{0});  // no augmentation data
  end();
  return function;
}

void StubFrames::begin() {
  entry_ = bytes_.size();
  append(bytes_, std::uint32_t{0});  // the length, once it is known
}

void StubFrames::end() {
  const std::size_t to = alignment();
  bytes_.resize(align_up(bytes_.size(), to));  // DW_CFA_nop is 0
  const auto length = static_cast<std::uint32_t>(bytes_.size() - entry_ - sizeof(std::uint32_t));
  std::memcpy(&bytes_[entry_], &length, sizeof length);
}

}  // namespace vitrine::usdt
