#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

#include "dof/dof.hpp"

namespace vitrine::dof {
namespace {

using enum Machine;
using enum Use;
using enum Instruction;

std::vector<std::byte> code(std::initializer_list<unsigned> bytes) {
  std::vector<std::byte> out;
  for (const unsigned byte : bytes) out.push_back(static_cast<std::byte>(byte));
  return out;
}

/// A row of docs/formats/dof.md, "Site patterns".
struct Row {
  Machine machine;
  Use use;
  Instruction instruction;
  bool written;
  std::size_t site;
  std::vector<std::byte> bytes;
};

std::vector<Row> rows() {
  std::vector<Row> out;
  for (const Machine x86 : {x86_64, i386}) {
    out.push_back({x86, fire, call, true, 0, code({0x90, 0x90, 0x90, 0x90, 0x90})});
    out.push_back({x86, fire, call, true, 0, code({0x0f, 0x1f, 0x44, 0x00, 0x00})});
    out.push_back({x86, fire, jump, true, 0, code({0x90, 0xc3, 0x90, 0x90, 0x90})});
    out.push_back({x86, fire, jump, false, 0, code({0xc3, 0x90, 0x90, 0x90, 0x90})});
    out.push_back({x86, fire, stub, true, 0, code({0x90, 0xc3, 0x17})});
    out.push_back({x86, enabled_register, call, true, 3, code({0x6a, 0x00, 0x58, 0x90, 0x90})});
    // Its stub has the same bytes.
    out.push_back({x86, enabled_register, jump, true, 3, code({0x6a, 0x00, 0x58, 0x90, 0xc3})});
    out.push_back({x86, enabled_register, jump, false, 2, code({0x31, 0xc0, 0x90, 0xc3, 0x90})});
  }
  out.push_back({x86_64, enabled_register, call, false, 2, code({0x31, 0xc0, 0x90, 0x90, 0x90})});
  out.push_back({x86_64, enabled_register, call, false, 3, code({0x48, 0x33, 0xc0, 0x90, 0x90})});
  out.push_back({x86_64, enabled_register, jump, false, 3, code({0x48, 0x33, 0xc0, 0xc3, 0x90})});
  out.push_back({i386, enabled_register, call, false, 2, code({0x33, 0xc0, 0x90, 0x90, 0x90})});
  out.push_back({i386, enabled_register, jump, false, 2, code({0x33, 0xc0, 0xc3, 0x90, 0x90})});
  out.push_back({aarch64, fire, call, true, 0, code({0x1f, 0x20, 0x03, 0xd5})});
  out.push_back({aarch64, fire, jump, true, 0, code({0xc0, 0x03, 0x5f, 0xd6})});
  out.push_back(
      {aarch64, fire, stub, true, 0, code({0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6})});
  out.push_back({aarch64, enabled_register, call, false, 0, code({0x00, 0x00, 0x80, 0x52})});
  out.push_back({aarch64, enabled_register, stub, true, 4,
                 code({0, 0, 0x80, 0x52, 0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6})});
  out.push_back({aarch64, enabled_register, call, false, 0, code({0x1f, 0x20, 0x03, 0xd5})});
  out.push_back({aarch64, enabled_register, jump, false, 0, code({0xc0, 0x03, 0x5f, 0xd6})});
  return out;
}

TEST(SitePattern, RecognisesTheTable) {
  for (const Row& row : rows()) {
    const auto found = pattern_at(row.bytes, row.site, row.machine, row.use);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->instruction, row.instruction);
    EXPECT_EQ(found->written, row.written);
    EXPECT_EQ(found->site, row.site);
    // Within other code, too.
    std::vector<std::byte> within = code({0x55, 0x48});
    within.insert(within.end(), row.bytes.begin(), row.bytes.end());
    within.push_back(std::byte{0x5d});
    EXPECT_TRUE(pattern_at(within, row.site + 2, row.machine, row.use));
  }
}

TEST(SitePattern, RecognisesNothingElse) {
  for (const Row& row : rows()) {
    const std::size_t length = pattern_at(row.bytes, row.site, row.machine, row.use)->length;
    for (std::size_t i = 0; i < length; ++i) {
      std::vector<std::byte> altered = row.bytes;
      altered[i] = std::byte{0xcc};
      const auto found = pattern_at(altered, row.site, row.machine, row.use);
      // aarch64's stub whose `ret` is gone looks as a call does; a jump with another end, as a stub.
      EXPECT_TRUE(!found || found->length < length) << i;
      const auto cut = std::span(row.bytes).first(i);
      const auto of_less = pattern_at(cut, row.site, row.machine, row.use);
      EXPECT_TRUE(!of_less || of_less->length <= i);
    }
  }
  const auto nops = code({0x90, 0x90, 0x90, 0x90, 0x90});
  EXPECT_FALSE(
      pattern_at(nops, 1, x86_64, fire));  // within the pattern: another instruction's place
  EXPECT_FALSE(pattern_at(nops, 5, x86_64, fire));
  EXPECT_FALSE(pattern_at(nops, 99, x86_64, fire));
  EXPECT_FALSE(pattern_at(nops, 0, x86_64, enabled_register));
  EXPECT_FALSE(pattern_at(nops, 0, aarch64, fire));
}

TEST(SitePattern, WritesOurs) {
  for (const Machine machine : {x86_64, i386, aarch64})
    for (const Use use : {fire, enabled_register})
      for (const Instruction instruction : {call, jump, stub}) {
        const auto pattern = pattern_to_write(machine, use, instruction);
        if (machine == aarch64 && use == enabled_register && instruction != stub) {
          EXPECT_FALSE(pattern);
          continue;
        }
        ASSERT_TRUE(pattern);
        EXPECT_TRUE(pattern->written);
        EXPECT_FALSE(pattern->long_nop);
        EXPECT_EQ(pattern->instruction, instruction);
        // On a nop: never on what the kernel has to single-step. (aarch64 emulates ret.)
        EXPECT_TRUE(machine == aarch64 || pattern->code()[pattern->site] == 0x90);
        EXPECT_TRUE(instruction == stub || pattern->length == (machine == aarch64 ? 4 : 5));
        // The answer without a register to be written: false as long as no breakpoint is there.
        EXPECT_EQ(pattern->breakpoint != 0, machine != aarch64 && use == enabled_register);
        EXPECT_TRUE(pattern->breakpoint == 0 || pattern->code()[pattern->breakpoint] == 0);
      }
  EXPECT_EQ(pattern_to_write(x86_64, fire, call, true)->bytes[0], 0x0f);
  EXPECT_EQ(pattern_to_write(x86_64, fire, jump, true)->bytes[0], 0x90);  // no variant
}

}  // namespace
}  // namespace vitrine::dof
