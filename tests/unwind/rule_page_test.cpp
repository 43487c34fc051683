// Pages of rules for the kernel, of real files of both machines, against the rows that they are of.
#include "unwind/rule_page.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <ucontext.h>

#include <array>
#include <map>

#include "sandbox/files.hpp"
#include "unwind/restore.hpp"

namespace vitrine::unwind {
namespace {

constexpr Address stack_start = 0x7000;

/// A frame with a stack whose words all differ, as the kernel's unwinder knows it.
struct Sampled {
  Sampled(Machine machine, Address pc) : position{{machine, {}}, 0} {
    for (std::size_t n = 0; n < words.size(); ++n) words[n] = 0x40'0000 + n;
    const Roles roles = roles_of(machine);
    position.set(roles.stack, stack_start);
    position.set(roles.frame, stack_start + 1024);
    position.set(roles.pc, pc);
    if (roles.result != roles.pc) position.set(roles.result, 0x1234);
  }
  [[nodiscard]] Stack stack() const { return {stack_start, std::as_bytes(std::span(words))}; }

  std::array<std::uint64_t, 1024> words{};
  Position position;
};

/// The caller's stack pointer, frame pointer and pc, where they are known.
using Caller = std::array<std::optional<std::uint64_t>, 3>;

Caller caller_by(const Row& row, const Sampled& frame) {
  const Roles roles = roles_of(frame.position.registers.machine);
  const auto next = restore(row, frame.position, frame.stack());
  if (!next) return {};
  return {next->get(roles.stack), next->get(roles.frame), next->get(roles.pc)};
}

Caller caller_by(const Rule& rule, const Sampled& frame) {
  const Roles roles = roles_of(frame.position.registers.machine);
  const Stack stack = frame.stack();
  const auto from = frame.position.get(rule.cfa_register);
  if (!from) return {};
  const Address cfa = *from + static_cast<std::uint64_t>(std::int64_t{rule.cfa_offset});
  const auto found = [&](Rule::Source source, std::int32_t offset, std::uint8_t number) {
    std::uint64_t word = 0;
    if (source == Rule::Source::same) return frame.position.get(number);
    const Address at = cfa + static_cast<std::uint64_t>(std::int64_t{offset});
    if (source == Rule::Source::lost || !stack.read(at, word))
      return std::optional<std::uint64_t>();
    return std::optional(word);
  };
  return {cfa, found(rule.frame_pointer, rule.frame_pointer_offset, roles.frame),
          found(rule.return_address, rule.return_address_offset, roles.result)};
}

Result<std::shared_ptr<FrameTable>> table_of(const char* path) {
  return sandbox::FileMemory::from(FileDescriptor(::open(path, O_RDONLY | O_CLOEXEC)))
      .and_then([](auto file) { return FrameTable::open(std::move(file)); });
}

/// Padding, whose code is not looked at.
bool is_between_functions(FrameTable& table, Address at) {
  const RuleBlock block = table.rules_around(at);
  const RuleSpan* span = block.span_of(at);
  return span != nullptr && span->size < 16;
}

class RulePages : public testing::TestWithParam<const char*> {};

TEST_P(RulePages, SayWhatTheRowsSay) {
  auto table = table_of(GetParam());
  ASSERT_TRUE(table) << table.error().message;
  const Machine machine = (*table)->machine();

  std::map<Rule::Form, std::size_t> seen;
  std::size_t rows = 0, pages = 0, tried_out = 0, different = 0;
  const auto compare = [&](const RulePage& page, Address at) {
    const Rule& ours = page.at(static_cast<std::uint32_t>(at % rule_page_bytes));
    const Rule wanted = (*table)->rule(at);
    const bool is_padding = wanted.form == Rule::Form::none && is_between_functions(**table, at);
    if (!is_padding) ++seen[ours.form];
    bool agrees = ours == wanted;
    if (!agrees && wanted.form == Rule::Form::none) {
      const Row* before = at != 0 ? (*table)->row(at - 1) : nullptr;
      agrees = ours.form == Rule::Form::unknown &&
               (is_padding || (*table)->rule_by_code(at, false).form != Rule::Form::none ||
                (before != nullptr && before->is_signal));
    } else if (!agrees && wanted.form == Rule::Form::row) {
      const Row row = *(*table)->row(at);
      const Sampled frame(machine, at);
      agrees = ours.form == Rule::Form::unknown;
      if (ours.form == Rule::Form::offsets)
        agrees = caller_by(row, frame) == caller_by(ours, frame);
      if (ours.form == Rule::Form::signal)
        agrees =
            row.is_signal && caller_by(row, frame) == caller_by(signal_frame_row(machine), frame);
      tried_out += ours.form != Rule::Form::unknown;
    }
    if (!agrees && ++different <= 5)
      ADD_FAILURE() << fmt::format("{:#x}: form {} for form {}", at, static_cast<int>(ours.form),
                                   static_cast<int>(wanted.form));
  };
  for (const elf::Segment& segment : (*table)->segments()) {
    if (segment.type != PT_LOAD || (segment.flags & PF_X) == 0) continue;
    const Address end = segment.address + segment.file_size;
    for (Address start = segment.address & ~Address{rule_page_bytes - 1}; start < end;
         start += rule_page_bytes) {
      const RulePage page = make_rule_page(**table, start + 17);
      ASSERT_TRUE(page.is_sound());
      ++pages;
      rows += page.rows.size();
      for (const PageRow& row : page.rows) {
        compare(page, start + row.offset);
        if (row.offset != 0) compare(page, start + row.offset - 1);
      }
      // Where a row is missing, its page has no edge.
      for (std::uint32_t offset = 0; offset < rule_page_bytes; offset += 23)
        compare(page, start + offset);
    }
  }
  fmt::print("{}: {} rows in {} pages; {} tried out; unknown {}, signal {}\n", GetParam(), rows,
             pages, tried_out, seen[Rule::Form::unknown], seen[Rule::Form::signal]);
  EXPECT_EQ(different, 0U);
  EXPECT_GT(rows, 500U);
  EXPECT_GT(seen[Rule::Form::offsets], 10 * seen[Rule::Form::unknown]);
}

INSTANTIATE_TEST_SUITE_P(Files, RulePages,
                         testing::Values("/usr/lib/x86_64-linux-gnu/libc.so.6",
                                         "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
                                         "/lib64/ld-linux-x86-64.so.2", "/usr/bin/python3",
                                         "/proc/self/exe", "/usr/aarch64-linux-gnu/lib/libc.so.6",
                                         "/usr/aarch64-linux-gnu/lib/libstdc++.so.6"),
                         [](const auto& file) {
                           std::string name = file.param;
                           for (char& c : name)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return name;
                         });

/// glibc says by expressions where its trampoline finds the registers.
TEST(RulePage, KnowsTheSignalTrampoline) {
  auto table = table_of("/usr/lib/x86_64-linux-gnu/libc.so.6");
  ASSERT_TRUE(table);
  std::size_t signals = 0;
  for (const elf::Segment& segment : (*table)->segments()) {
    if (segment.type != PT_LOAD || (segment.flags & PF_X) == 0) continue;
    for (Address at = segment.address; at < segment.address + segment.file_size;
         at += rule_page_bytes)
      for (const Rule& rule : make_rule_page(**table, at).rules)
        signals += rule.form == Rule::Form::signal;
  }
  EXPECT_EQ(signals, 1U);
}

#if defined(__x86_64__)

/// A function of makecontext() returns to the first instruction of another one: the byte before is looked up.
TEST(RulePage, KnowsWhereTheStackOfAContextEnds) {
  ucontext_t own{}, made{};
  std::array<std::uint64_t, 64> stack{};
  ASSERT_EQ(::getcontext(&own), 0);
  made = own;
  made.uc_stack.ss_sp = stack.data();
  made.uc_stack.ss_size = sizeof stack;
  ::makecontext(
      &made, [] {}, 0);
  const auto* const top = reinterpret_cast<const std::uint64_t*>(made.uc_mcontext.gregs[REG_RSP]);
  Dl_info libc{};
  ASSERT_NE(::dladdr(reinterpret_cast<const void*>(*top), &libc), 0);
  const Address lookup = *top - 1 - reinterpret_cast<Address>(libc.dli_fbase);

  auto table = table_of(libc.dli_fname);
  ASSERT_TRUE(table);
  EXPECT_EQ((*table)->rule(lookup).form, Rule::Form::outermost);
  const RulePage page = make_rule_page(**table, lookup);
  EXPECT_EQ(page.at(static_cast<std::uint32_t>(lookup % rule_page_bytes)).form,
            Rule::Form::outermost);
  EXPECT_NE((*table)->rule(lookup + 1).form, Rule::Form::outermost);
}

/// As the end of make_fcontext() of Boost.Context, which has no CFI.
asm(R"(
  .text
  jmp *%rbx
end_of_test_context:
  xor %rdi, %rdi
  call _exit@PLT
  hlt
)");
extern "C" const char end_of_test_context[];

TEST(RulePage, KnowsWhereAStackOfBoostEnds) {
  Dl_info own{};
  ASSERT_NE(::dladdr(end_of_test_context, &own), 0);
  const auto address = reinterpret_cast<Address>(end_of_test_context);
  const Address lookup = address - 1 - reinterpret_cast<Address>(own.dli_fbase);
  auto table = table_of("/proc/self/exe");
  ASSERT_TRUE(table);
  EXPECT_EQ((*table)->rule(lookup).form, Rule::Form::outermost);
  const RulePage page = make_rule_page(**table, lookup);
  EXPECT_EQ(page.at(static_cast<std::uint32_t>(lookup % rule_page_bytes)).form,
            Rule::Form::outermost);
  EXPECT_NE((*table)->rule(lookup - 1).form, Rule::Form::outermost);
  EXPECT_NE((*table)->rule(lookup + 1).form, Rule::Form::outermost);
}

#endif

TEST(RulePage, CfaByStackPointerAndPcIsAnOffset) {
  Row row;
  row.cfa = {RegisterRule::Kind::expression, 11, 0};
  row.registers[16] = {RegisterRule::Kind::at_cfa, 0, -8};
  // breg7 +8; breg16 +0; lit15; and; lit11; ge; lit3; shl; plus: what ld writes for a PLT
  for (const int byte : {0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22})
    row.expressions.push_back(static_cast<std::byte>(byte));
  for (const Address pc : {0x1020U, 0x102aU, 0x102bU, 0x102fU}) {
    const Rule rule = kernel_rule(row, pc, Machine::x86_64);
    EXPECT_EQ(rule.form, Rule::Form::offsets);
    EXPECT_EQ(rule.cfa_register, 7);
    EXPECT_EQ(rule.cfa_offset, (pc & 15) >= 11 ? 16 : 8);
  }
  row.expressions[0] = std::byte{0x76};  // the frame pointer
  EXPECT_EQ(kernel_rule(row, 0x1020, Machine::x86_64).form, Rule::Form::unknown);
  row.expressions = {std::byte{0x80}, std::byte{0}};  // the pc itself
  row.cfa.size = 2;
  EXPECT_EQ(kernel_rule(row, 0x1020, Machine::x86_64).form, Rule::Form::unknown);
}

TEST(RulePage, RefusesWhatNoWorkerWouldSend) {
  RulePage page{{{0, 0}, {16, 1}}, {Rule{}, Rule{}}};
  EXPECT_TRUE(page.is_sound());
  for (const RulePage& wrong :
       {RulePage{}, RulePage{{{1, 0}}, {Rule{}}}, RulePage{{{0, 1}}, {Rule{}}},
        RulePage{{{0, 0}, {4096, 0}}, {Rule{}}}, RulePage{{{0, 0}, {8, 0}, {8, 0}}, {Rule{}}}})
    EXPECT_FALSE(wrong.is_sound());
  page.rules[1].form = Rule::Form::row;
  EXPECT_FALSE(page.is_sound());
  page.rules[1] = {Rule::Form::offsets, register_count};
  EXPECT_FALSE(page.is_sound());
}

}  // namespace
}  // namespace vitrine::unwind
