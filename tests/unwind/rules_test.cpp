// The rows of real files, of both machines, against libdw's.
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <libelf.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "sandbox/files.hpp"
#include "unwind/frame_table.hpp"

namespace vitrine::unwind {
namespace {

using Kind = RegisterRule::Kind;

/// As libdw tells a location: nothing, the same, at CFA + offset, or something else.
std::string text_of(const Dwarf_Op* ops, std::size_t count, bool is_undefined) {
  if (count == 0) return is_undefined ? "undefined" : "same";
  if (ops[0].atom != DW_OP_call_frame_cfa) {
    if (count == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg31)
      return fmt::format("register {}", ops[0].atom - DW_OP_reg0);
    if (count == 1 && ops[0].atom == DW_OP_regx) return fmt::format("register {}", ops[0].number);
    return "expression";
  }
  std::int64_t offset = 0;
  std::size_t at = 1;
  if (at < count && ops[at].atom == DW_OP_plus_uconst)
    offset = static_cast<std::int64_t>(ops[at++].number);
  if (at == count) return fmt::format("at {}", offset);
  if (at + 1 == count && ops[at].atom == DW_OP_stack_value) return fmt::format("cfa {}", offset);
  return "expression";
}

std::string text_of(const RegisterRule& rule, std::size_t number, Machine machine) {
  const Roles roles = roles_of(machine);
  switch (rule.kind) {
    case Kind::undefined:
      return "undefined";
    case Kind::same:
      return "same";
    case Kind::at_cfa:
      return fmt::format("at {}", rule.value);
    case Kind::cfa_plus:
      return fmt::format("cfa {}", rule.value);
    case Kind::in_register:
      return fmt::format("register {}", rule.value);
    case Kind::at_expression:
    case Kind::expression:
      return "expression";
    case Kind::unspecified:
      break;
  }
  if (number == roles.stack) return "cfa 0";
  const bool is_link = number == roles.result && roles.result != roles.pc;
  return is_link || (roles.kept >> number & 1) != 0 ? "same" : "undefined";
}

std::string cfa_text(const Row& row) {
  return row.cfa.kind == Kind::in_register ? fmt::format("{}{:+}", row.cfa.value, row.cfa_offset)
                                           : "expression";
}

std::string cfa_text(Dwarf_Frame* frame) {
  Dwarf_Op* ops = nullptr;
  std::size_t count = 0;
  if (dwarf_frame_cfa(frame, &ops, &count) != 0) return "error";
  if (count == 1 && ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31)
    return fmt::format("{}{:+}", ops[0].atom - DW_OP_breg0,
                       static_cast<std::int64_t>(ops[0].number));
  if (count == 1 && ops[0].atom == DW_OP_bregx)
    return fmt::format("{}{:+}", ops[0].number, static_cast<std::int64_t>(ops[0].number2));
  return "expression";
}

/// Everything that unwinding may ask for: what is kept, the stack pointer, the return address.
std::vector<std::size_t> columns_of(Machine machine) {
  const Roles roles = roles_of(machine);
  std::vector<std::size_t> columns{roles.result};
  for (std::size_t n = 0; n < register_count; ++n)
    if ((roles.kept >> n & 1) != 0) columns.push_back(n);
  return columns;
}

std::string described(const Row& row, Machine machine) {
  std::string text = "CFA " + cfa_text(row) + (row.is_signal ? " signal" : "");
  for (const std::size_t n : columns_of(machine))
    text += fmt::format(", {} {}", n, text_of(row.registers[n], n, machine));
  return text;
}

std::string described(Dwarf_Frame* frame, Machine machine) {
  bool is_signal = false;
  dwarf_frame_info(frame, nullptr, nullptr, &is_signal);
  std::string text = "CFA " + cfa_text(frame) + (is_signal ? " signal" : "");
  for (const std::size_t n : columns_of(machine)) {
    Dwarf_Op memory[3];
    Dwarf_Op* ops = nullptr;
    std::size_t count = 0;
    if (dwarf_frame_register(frame, static_cast<int>(n), memory, &ops, &count) != 0)
      return "error: " + std::string(dwarf_errmsg(-1));
    // elfutils names the wrong register as kept by the x86-64 ABI: 0 (rax) where rbx is meant.
    const bool is_rbx = machine == Machine::x86_64 && n == 3;
    text += fmt::format(", {} {}", n, text_of(ops, count, ops == memory && !is_rbx));
  }
  return text;
}

class Rules : public testing::TestWithParam<const char*> {};

TEST_P(Rules, AreThoseOfLibdw) {
  const std::string path = GetParam();
  if (!std::filesystem::exists(path)) GTEST_FAIL() << path << ": install packages.txt";
  const int fd = ::open(path.c_str(), O_RDONLY);
  auto file = sandbox::FileMemory::from(FileDescriptor(::dup(fd)));
  ASSERT_TRUE(file);
  const auto table = FrameTable::open(std::move(*file));
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ((*table)->problem(), "");
  const Machine machine = (*table)->machine();

  elf_version(EV_CURRENT);
  Elf* elf = elf_begin(fd, ELF_C_READ, nullptr);
  Dwarf_CFI* cfi = dwarf_getcfi_elf(elf);
  ASSERT_NE(cfi, nullptr) << dwarf_errmsg(-1);
  std::mt19937_64 random(1);
  std::size_t compared = 0, different = 0, without = 0, signals = 0, expressions = 0;
  std::size_t elsewhere = 0;  // returns to what another register than the usual has
  std::size_t in_blocks = 0;  // of every eighth
  std::size_t segments = 0;
  elf_getphdrnum(elf, &segments);
  for (std::size_t n = 0; n < segments; ++n) {
    GElf_Phdr segment;
    gelf_getphdr(elf, static_cast<int>(n), &segment);
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    // Some 40,000 addresses of each file, at random distances.
    const std::uint64_t most = std::max<std::uint64_t>(segment.p_filesz / 20'000, 2);
    for (std::uint64_t at = 0; at < segment.p_filesz; at += random() % most + 1) {
      const Address pc = segment.p_vaddr + at;
      Dwarf_Frame* frame = nullptr;
      if (dwarf_cfi_addrframe(cfi, pc, &frame) != 0) {
        ++without;  // ours may know the code nevertheless: unwind/frame_table.hpp
        continue;
      }
      if (dwarf_frame_info(frame, nullptr, nullptr, nullptr) != roles_of(machine).result) {
        ++elsewhere;
        ::free(frame);
        continue;
      }
      ++compared;
      if (compared % 8 == 0) {
        const RuleBlock block = (*table)->rules_around(pc);
        const Rule* rule = block.find(pc);
        in_blocks += rule != nullptr;
        EXPECT_TRUE(rule == nullptr || *rule == (*table)->rule(pc)) << fmt::format("{:#x}", pc);
      }
      const Row* row = (*table)->row(pc);
      const std::string theirs = described(frame, machine);
      const std::string ours = row == nullptr ? "none" : described(*row, machine);
      signals += theirs.find("signal") != theirs.npos;
      expressions += theirs.find("expression") != theirs.npos;
      if (ours != theirs && ++different <= 5)
        ADD_FAILURE() << fmt::format("{:#x}: ours {}\nlibdw {}", pc, ours, theirs);
      ::free(frame);
    }
  }
  fmt::print(
      "{}: {} rows, {} different, {} with expressions, {} of signals; {} addresses without\n", path,
      compared, different, expressions, signals, without);
  EXPECT_EQ(different, 0U);
  EXPECT_LT(elsewhere, 100U);
  EXPECT_GT(compared, 1000U);
  EXPECT_GT(in_blocks, compared / 8 * 95 / 100);
  dwarf_cfi_end(cfi);
  elf_end(elf);
  ::close(fd);
}

INSTANTIATE_TEST_SUITE_P(Files, Rules,
                         testing::Values("/usr/lib/x86_64-linux-gnu/libc.so.6",
                                         "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
                                         "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
                                         "/lib64/ld-linux-x86-64.so.2",
                                         "/usr/aarch64-linux-gnu/lib/libc.so.6",
                                         "/usr/aarch64-linux-gnu/lib/libstdc++.so.6",
                                         "/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1"),
                         [](const auto& file) {
                           std::string name = file.param;
                           for (char& c : name)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return name;
                         });

}  // namespace
}  // namespace vitrine::unwind
