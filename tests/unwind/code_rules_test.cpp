// Rules found by instructions, against the CFI of files that have it; and the lengths of
// instructions, against objdump.
#include "unwind/code_rules.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "base/memory.hpp"
#include "sandbox/files.hpp"
#include "unwind/frame_table.hpp"

namespace vitrine::unwind {
namespace {

using namespace std::string_literals;

struct Disassembled {
  Address address = 0;
  std::vector<std::byte> bytes;
  std::string text;
};

std::vector<Disassembled> disassembled(const std::string& path) {
  std::vector<Disassembled> all;
  FILE* output = ::popen(("objdump -d --insn-width=16 " + path).c_str(), "r");
  char line[4096];
  while (std::fgets(line, sizeof line, output) != nullptr) {
    Disassembled one;
    unsigned long address = 0;
    int at = 0;
    if (std::sscanf(line, " %lx:\t%n", &address, &at) != 1 || at == 0) continue;
    one.address = address;
    for (unsigned byte = 0; std::isxdigit(static_cast<unsigned char>(line[at])) != 0 &&
                            std::sscanf(line + at, "%2x ", &byte) == 1;
         at += 3)
      one.bytes.push_back(static_cast<std::byte>(byte));
    one.text = line + at;
    all.push_back(std::move(one));
  }
  ::pclose(output);
  return all;
}

std::string name_of(const testing::TestParamInfo<const char*>& file) {
  std::string name = file.param;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

class Code : public testing::TestWithParam<const char*> {};
class FoundRules : public testing::TestWithParam<const char*> {};

TEST_P(Code, InstructionsAreAsLongAsObjdumpHasThem) {
  std::size_t compared = 0, different = 0;
  for (const Disassembled& one : disassembled(GetParam())) {
    if (one.text.find("(bad)") != one.text.npos || one.bytes.empty()) continue;
    // Prefixes alone, and fwait with what it waits before, which objdump has as one.
    if (one.text.find("rex") != one.text.npos || one.text.find("data16") != one.text.npos ||
        one.bytes[0] == std::byte{0x9b})
      continue;
    std::vector<std::byte> bytes = one.bytes;
    bytes.resize(instruction_bytes);
    ++compared;
    if (decode(bytes).length != one.bytes.size() && ++different <= 5)
      ADD_FAILURE() << fmt::format("{:#x}: {} not {}: {}", one.address, decode(bytes).length,
                                   one.bytes.size(), one.text);
  }
  fmt::print("{}: {} instructions\n", GetParam(), compared);
  EXPECT_GT(compared, 10'000U);
  EXPECT_LE(different, compared / 100'000);
}

TEST_P(FoundRules, AreThoseOfCfi) {
  auto file = sandbox::FileMemory::from(FileDescriptor(::open(GetParam(), O_RDONLY)));
  auto code = sandbox::FileMemory::from(FileDescriptor(::open(GetParam(), O_RDONLY)));
  ASSERT_TRUE(file && code);
  const auto table = FrameTable::open(std::move(*file)).value();
  const auto segments = table->segments();
  CodeRules rules([&](Address address, std::span<std::byte> into) -> std::size_t {
    for (const elf::Segment& segment : segments)
      if (segment.type == PT_LOAD && address - segment.address < segment.file_size)
        return (*code)->read_some(segment.offset + (address - segment.address), into);
    return 0;
  });
  std::size_t compared = 0, equal = 0, none = 0, different = 0, n = 0;
  for (const Disassembled& one : disassembled(GetParam())) {
    if (++n % 61 != 0 || one.text.find("nop") != one.text.npos) continue;  // padding is nobody's
    const Rule truth = table->rule(one.address);
    if (truth.form != Rule::Form::offsets) continue;
    ++compared;
    const Rule found = rules.rule(one.address, false);
    if (found.form != Rule::Form::offsets) {
      ++none;
    } else if (found.cfa_register == truth.cfa_register && found.cfa_offset == truth.cfa_offset) {
      ++equal;
    } else if (found.cfa_register == truth.cfa_register) {
      if (++different <= 5)
        fmt::print("{:#x}: CFA {}{:+}, not {}{:+}: {}", one.address, found.cfa_register,
                   found.cfa_offset, truth.cfa_register, truth.cfa_offset, one.text);
    } else {
      ++equal;  // another register says the same
    }
  }
  fmt::print("{}: {} rules, {} equal, {} not found, {} different\n", GetParam(), compared, equal,
             none, different);
  EXPECT_GT(compared, 1000U);
  EXPECT_GT(equal * 100, compared * 85);
  EXPECT_LE(different * 1000, compared * 5);
}

std::shared_ptr<FrameTable> table_of(const std::string& path) {
  auto file = sandbox::FileMemory::from(FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)));
  return FrameTable::open(std::move(*file)).value();
}

Address entry_of(const std::string& path) {
  Elf64_Ehdr header{};
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof header);
  return header.e_entry;
}

// What the kernel begins with has no caller, and what is called there is something else.
TEST(StartOfAProgram, OfTheDynamicLinkerIsOutermost) {
  const std::string path = "/lib64/ld-linux-x86-64.so.2";
  const Address entry = entry_of(path);
  const auto table = table_of(path);
  std::size_t calls = 0;
  Address end = entry;
  bool is_over = false;
  for (const Disassembled& one : disassembled(path)) {
    if (one.address < entry || is_over) continue;
    EXPECT_EQ(table->rule(one.address).form, Rule::Form::outermost) << hex(one.address);
    const Rule* in_block = table->rules_around(one.address).find(one.address);
    EXPECT_TRUE(in_block != nullptr && in_block->form == Rule::Form::outermost) << hex(one.address);
    calls += one.text.find("call") != std::string::npos ? 1 : 0;
    is_over = one.text.find("jmp") != std::string::npos;
    end = one.address + one.bytes.size();
  }
  EXPECT_EQ(calls, 2U);  // _dl_start, and _dl_init
  EXPECT_NE(table->rule(end).form, Rule::Form::outermost);
  EXPECT_NE(table->rule(entry - 1).form, Rule::Form::outermost);
}

TEST(StartOfAProgram, IsNoFunctionAtTheEntryOfALibrary) {
  // The code of a function, as an entry: it has a return address where the arguments would be.
  for (const std::string& code : {"\x55\x48\x89\xe5\xe8\0\0\0\0\xc3"s,          // push, mov, call
                                  "\x48\x83\xec\x18\x48\x89\xe7\xe8\0\0\0\0"s,  // sub, mov, call
                                  "\xe8\0\0\0\0\xc3"s, "\x0f\x0b"s}) {
    CodeRules rules([&](Address at, std::span<std::byte> into) {
      const std::size_t size = at < code.size() ? std::min(into.size(), code.size() - at) : 0;
      std::memcpy(into.data(), code.data() + std::min<std::size_t>(at, code.size()), size);
      return size;
    });
    EXPECT_EQ(rules.end_of_start(0), 0U);
  }
}

TEST(Instructions, OfBytesChangeTheRegisterThatHasThem) {
  const auto changed = [](std::initializer_list<unsigned char> bytes) {
    std::vector<std::byte> code;
    for (const unsigned char byte : bytes) code.push_back(static_cast<std::byte>(byte));
    code.resize(instruction_bytes);
    return decode(code).reg;
  };
  EXPECT_EQ(changed({0x80, 0xcc, 0x0c}), Instruction::rax);        // or $0xc, %ah
  EXPECT_EQ(changed({0x80, 0xf7, 0x20}), 3);                       // xor $0x20, %bh
  EXPECT_EQ(changed({0x00, 0xe4}), Instruction::rax);              // add %ah, %ah
  EXPECT_EQ(changed({0x22, 0xe0}), Instruction::rax);              // and %al, %ah
  EXPECT_EQ(changed({0x86, 0xe0}), Instruction::rax);              // xchg %ah, %al
  EXPECT_EQ(changed({0x40, 0x80, 0xcc, 0x0c}), Instruction::rsp);  // or $0xc, %spl
  EXPECT_EQ(changed({0x83, 0xcc, 0x0c}), Instruction::rsp);        // or $0xc, %esp
}

INSTANTIATE_TEST_SUITE_P(Of, Code,
                         testing::Values("/usr/lib/x86_64-linux-gnu/libc.so.6",
                                         "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
                                         "/usr/lib/x86_64-linux-musl/libc.so"),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Of, FoundRules,
                         testing::Values("/usr/lib/x86_64-linux-gnu/libc.so.6",
                                         "/usr/lib/x86_64-linux-gnu/libcrypto.so.3"),
                         name_of);

}  // namespace
}  // namespace vitrine::unwind
