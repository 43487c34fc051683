// The tables that the kernel unwinds by, read by the code that the kernel reads them with.
#include "bpf/unwind_log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <memory>

#include "sandbox/files.hpp"
#include "unwind/frame_table.hpp"
#include "unwind/rule_page.hpp"

namespace vitrine::bpf {
namespace {

using unwind::Rule;
using unwind::RulePage;

/// What the program in the kernel makes of a code (bpf/kernel/profile/unwind.bpf.h: step_of_code).
Rule decoded(const vitrine_unwind_tables& tables, std::uint32_t code, Machine machine) {
  const unwind::Roles roles = unwind::roles_of(machine);
  Rule rule;
  if ((code & VITRINE_UNWIND_BY_NUMBER) == 0) {
    const auto saved = static_cast<std::int32_t>(code & VITRINE_UNWIND_MOST_SAVED);
    const auto source = saved != 0 ? Rule::Source::at_cfa : Rule::Source::same;
    rule.form = Rule::Form::offsets;
    rule.cfa_register = (code & VITRINE_UNWIND_BY_FRAME_POINTER) != 0 ? roles.frame : roles.stack;
    rule.cfa_offset = static_cast<std::int32_t>((code >> 7 & VITRINE_UNWIND_MOST_CFA) * 8);
    rule.frame_pointer = source;
    rule.frame_pointer_offset = -8 * saved;
    rule.return_address = machine == Machine::x86_64 ? Rule::Source::at_cfa : source;
    rule.return_address_offset = machine == Machine::x86_64 ? -8 : saved != 0 ? 8 - 8 * saved : 0;
    return rule;
  }
  const std::uint32_t number = code & ~VITRINE_UNWIND_BY_NUMBER;
  constexpr Rule::Form forms[] = {Rule::Form::unknown, Rule::Form::none, Rule::Form::outermost,
                                  Rule::Form::signal};
  rule.form = number < VITRINE_UNWIND_SPECIALS ? forms[number] : Rule::Form::offsets;
  if (number < VITRINE_UNWIND_SPECIALS) return rule;
  const vitrine_unwind_rule& from = tables.rules[number];
  if (from.is_switched != 0) rule.form = Rule::Form::switched;
  rule.cfa_register = from.cfa_register;
  rule.frame_pointer = static_cast<Rule::Source>(from.frame_pointer);
  rule.return_address = static_cast<Rule::Source>(from.return_address);
  rule.cfa_offset = from.cfa_offset;
  rule.frame_pointer_offset = from.frame_pointer_offset;
  rule.return_address_offset = from.return_address_offset;
  return rule;
}

/// The code of an offset in the page that begins at `page`, as programs look for it.
std::uint32_t code_at(const vitrine_unwind_tables& tables, std::uint32_t page,
                      std::uint32_t offset) {
  vitrine_unwind_search search{};
  vitrine_unwind_search_begin(&search, tables.words, page, offset);
  for (std::uint32_t i = 0; i < VITRINE_UNWIND_SEARCH_STEPS; ++i)
    vitrine_unwind_search_step(&search, tables.words, i);
  return vitrine_unwind_search_end(&search, tables.words);
}

class Files : public testing::TestWithParam<const char*> {};

TEST_P(Files, HaveTheirRulesInTheTables) {
  auto opened = sandbox::FileMemory::from(FileDescriptor(::open(GetParam(), O_RDONLY | O_CLOEXEC)))
                    .and_then([](auto file) { return unwind::FrameTable::open(std::move(file)); });
  ASSERT_TRUE(opened) << opened.error().message;
  unwind::FrameTable& table = **opened;
  const auto tables = std::make_unique<vitrine_unwind_tables>();
  UnwindLog log(*tables);
  std::size_t pages = 0, different = 0;
  for (const elf::Segment& segment : table.segments()) {
    if (segment.type != 1 || (segment.flags & 1) == 0) continue;  // PT_LOAD, PF_X
    for (Address start = segment.address & ~Address{4095};
         start < segment.address + segment.file_size; start += 4096, ++pages) {
      const RulePage page = unwind::make_rule_page(table, start);
      const auto at = log.add_page({7, static_cast<__u32>(start >> 12)}, page, table.machine());
      ASSERT_TRUE(at);
      EXPECT_EQ(tables->words[*at], 7U);
      EXPECT_EQ(tables->words[*at + 1], start >> 12);
      for (std::uint32_t offset = 0; offset < 4096; ++offset) {
        const std::uint32_t code = code_at(*tables, *at, offset);
        different += decoded(*tables, code, table.machine()) != page.at(offset);
      }
    }
  }
  EXPECT_EQ(different, 0U);
  EXPECT_GT(pages, 20U);
}

INSTANTIATE_TEST_SUITE_P(OfBothMachines, Files,
                         testing::Values("/usr/lib/x86_64-linux-gnu/libc.so.6",
                                         "/lib64/ld-linux-x86-64.so.2", "/proc/self/exe",
                                         "/usr/aarch64-linux-gnu/lib/libc.so.6"),
                         [](const auto& row) { return "file" + std::to_string(row.index); });

Rule offsets(std::uint8_t base, std::int32_t cfa, Rule::Source frame, std::int32_t frame_at) {
  return {Rule::Form::offsets, base, frame, Rule::Source::at_cfa, cfa, frame_at, -8};
}

TEST(UnwindLog, GivesARuleANumberOfItsOwnWhereItsCodeHasNoRoom) {
  const auto tables = std::make_unique<vitrine_unwind_tables>();
  UnwindLog log(*tables);
  const auto in_code = [&](const Rule& rule) {
    const std::uint32_t code = log.code_of(rule, Machine::x86_64);
    EXPECT_EQ(decoded(*tables, code, Machine::x86_64), rule);
    return (code & VITRINE_UNWIND_BY_NUMBER) == 0;
  };
  const auto at_cfa = Rule::Source::at_cfa, lost = Rule::Source::lost;
  EXPECT_TRUE(in_code(offsets(7, 2047 * 8, at_cfa, -127 * 8)));
  EXPECT_TRUE(in_code(offsets(6, 16, at_cfa, -16)));
  EXPECT_FALSE(in_code(offsets(7, 2048 * 8, at_cfa, -16)));
  EXPECT_FALSE(in_code(offsets(7, 12, at_cfa, -16)));
  EXPECT_FALSE(in_code(offsets(7, -8, at_cfa, -16)));
  EXPECT_FALSE(in_code(offsets(7, 16, at_cfa, -128 * 8)));
  EXPECT_FALSE(in_code(offsets(7, 16, at_cfa, 8)));
  EXPECT_FALSE(in_code(offsets(7, 16, at_cfa, INT32_MIN)));
  EXPECT_FALSE(in_code(offsets(7, 16, lost, 0)));
  EXPECT_FALSE(in_code(offsets(10, 0, at_cfa, -16)));
  Rule elsewhere = offsets(7, 16, at_cfa, -16);
  elsewhere.return_address_offset = -16;
  EXPECT_FALSE(in_code(elsewhere));
  Rule switched = offsets(6, 16, at_cfa, -16);
  switched.form = Rule::Form::switched;
  EXPECT_FALSE(in_code(switched));
}

TEST(UnwindLog, LeavesRulesBeyondItsRoomToUserSpace) {
  const auto tables = std::make_unique<vitrine_unwind_tables>();
  UnwindLog log(*tables);
  std::size_t numbered = 0, left = 0;
  for (std::int32_t n = 0; n < 2 * VITRINE_UNWIND_RULES; ++n) {
    const std::uint32_t code =
        log.code_of(offsets(7, 8 * n + 1, Rule::Source::lost, 0), Machine::x86_64);
    (code == (VITRINE_UNWIND_BY_NUMBER | VITRINE_UNWIND_COPY) ? left : numbered) += 1;
  }
  EXPECT_EQ(numbered, std::size_t{VITRINE_UNWIND_RULES} - VITRINE_UNWIND_SPECIALS);
  EXPECT_EQ(left, 2U * VITRINE_UNWIND_RULES - numbered);
}

TEST(UnwindLog, WritesOnlyWhereItMay) {
  const auto tables = std::make_unique<vitrine_unwind_tables>();
  std::size_t left = 60;  // bytes that may be written to
  UnwindLog log(*tables, [&](const void* from, std::size_t bytes) {
    const auto at = static_cast<std::size_t>(static_cast<const char*>(from) -
                                             reinterpret_cast<const char*>(tables.get()));
    EXPECT_LE(at + bytes, sizeof *tables);
    if (bytes > left) return false;
    left -= bytes;
    return true;
  });
  const RulePage page{{{0, 0}}, {Rule{}}};
  const std::vector<vitrine_unwind_region> regions(1000);
  EXPECT_TRUE(log.add_page({1, 0}, page, Machine::x86_64));
  EXPECT_FALSE(log.add_page({1, 1}, page, Machine::x86_64));
  EXPECT_FALSE(log.add_space(42, 1, regions, 1));
  left = 0;
  EXPECT_EQ(log.code_of(offsets(7, 1, Rule::Source::lost, 0), Machine::x86_64),
            VITRINE_UNWIND_BY_NUMBER | VITRINE_UNWIND_COPY);
  EXPECT_EQ(tables->rules[VITRINE_UNWIND_SPECIALS].cfa_offset, 0);
  left = sizeof *tables;
  EXPECT_TRUE(log.add_page({1, 1}, page, Machine::x86_64));
  EXPECT_TRUE(log.add_space(42, 1, regions, 1));
}

TEST(UnwindLog, IsFullAtItsBoundsAndBeginsAnewWithOtherIds) {
  const auto tables = std::make_unique<vitrine_unwind_tables>();
  UnwindLog log(*tables);
  RulePage page{{}, {Rule{}}};
  for (std::uint16_t n = 0; n < 4096; ++n) page.rows.push_back({n, 0});
  std::size_t pages = 0;
  while (log.add_page({1, static_cast<__u32>(pages)}, page, Machine::x86_64)) ++pages;
  EXPECT_EQ(pages, VITRINE_UNWIND_WORDS / (4096 + VITRINE_UNWIND_PAGE_ROWS));

  const std::vector<vitrine_unwind_region> regions(1000);
  std::vector<std::uint32_t> ids;
  while (const auto id = log.add_space(42, 1, regions, 1)) ids.push_back(*id);
  EXPECT_EQ(ids.size(), VITRINE_UNWIND_REGIONS / 1000);
  EXPECT_EQ(tables->spaces[ids[1] % VITRINE_UNWIND_SPACES].id, ids[1]);
  EXPECT_EQ(tables->spaces[ids[1] % VITRINE_UNWIND_SPACES].first, 1000U);

  log.clear();
  EXPECT_TRUE(log.add_page({1, 0}, page, Machine::x86_64));
  const auto id = log.add_space(42, 1, regions, 1);
  ASSERT_TRUE(id);
  EXPECT_EQ(std::ranges::count(ids, *id), 0);
}

}  // namespace
}  // namespace vitrine::bpf
