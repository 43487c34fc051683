// Arithmetic, text and sums in the kernel: what conditions and lists ask for is what C gives for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "bpf/own_probe.hpp"
#include "query/arithmetic.hpp"
#include "query/compile.hpp"
#include "query/show.hpp"

namespace vitrine::bpf {
namespace {

using namespace vitrine::test;
using query::test::ArithmeticChance;
using query::test::CNumber;
using query::test::Computed;
using query::test::Wide;

std::uint64_t address_of(const void* at) {
  return reinterpret_cast<std::uint64_t>(at);
}

/// arg0: an int in rdi; arg1: an unsigned, arg2: a signed number of 64 bits in rsi and rdx.
const std::vector<vitrine_operand> operands{in_register(rdi, 4, VITRINE_SIGNED), in_register(rsi),
                                            in_register(rdx, 8, VITRINE_SIGNED)};

query::Arguments site() {
  return {operands, {}};
}

/// The program that captures what the items ask for, each as its own. False: there is no room.
bool add(vitrine_site_program& program, const std::string& text) {
  const auto item = query::parse_item(text);
  EXPECT_TRUE(item) << text;
  if (!item) return true;
  std::vector<query::Capture> captures;
  query::bind(item->subject, site(), captures);
  const auto steps =
      query::compile_calculation(captures.at(0).calculation, site(), program.captures);
  if (program.captures == VITRINE_CAPTURES ||
      program.steps + steps.size() > VITRINE_CALCULATION_STEPS)
    return false;
  for (const auto& step : steps) program.step[program.steps++] = step;
  vitrine_capture& capture = program.capture[program.captures++];
  capture.operand = query::result_operand(captures[0].calculation);
  capture.calculated = 1;
  return true;
}

TEST(Calculation, GivesWhatCGives) {
  ArithmeticChance chance(20261124);
  OwnTracer own;
  own.trace(vitrine_test_site, program(VITRINE_EMIT, {}));
  std::size_t asked = 0, divided_by_zero = 0;
  for (int round = 0; round < 400; ++round) {
    const std::uint64_t words[3] = {chance.word(), chance.word(), chance.word()};
    const auto low = static_cast<std::int32_t>(static_cast<std::uint32_t>(words[0]));
    const std::vector<Computed> arguments{
        {"arg0", CNumber::of(low, false)},
        {"arg1", CNumber::of(static_cast<Wide>(words[1]), true)},
        {"arg2", CNumber::of(static_cast<std::int64_t>(words[2]), false)}};
    auto what = program(VITRINE_EMIT, {});
    std::vector<Computed> wanted;
    for (;;) {
      const Computed one = chance.expression(arguments, 3);
      const auto item = query::parse_item(one.text);
      if (!item || item->subject.kind != query::Subject::Kind::calculated) continue;
      if (!add(what, one.text)) break;
      wanted.push_back(one);
    }
    ASSERT_TRUE(own.tracer->set_program(0, what));
    vitrine_test_fire(words[0], words[1], words[2]);
    const auto fires = own.take(1);
    ASSERT_EQ(fires.size(), 1u);
    ASSERT_EQ(fires[0].captures.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const Captured& got = fires[0].captures[i];
      ++asked;
      if (!wanted[i].number) {
        ++divided_by_zero;
        ASSERT_EQ(got.head.state, VITRINE_CAPTURE_DIVIDED_BY_0) << wanted[i].text;
        continue;
      }
      ASSERT_EQ(got.head.state, VITRINE_CAPTURED) << wanted[i].text;
      ASSERT_EQ(got.head.value, wanted[i].number->bits())
          << wanted[i].text << " of " << low << ", " << words[1] << ", "
          << static_cast<std::int64_t>(words[2]);
    }
  }
  EXPECT_GT(asked, 1000u);
  EXPECT_GT(divided_by_zero, 20u);
}

TEST(Calculation, FollowsPointersAndSaysWhereItCannot) {
  struct Inner {
    std::uint8_t byte = 200;
    std::int32_t number = -7;
  } inner;
  struct Outer {
    std::int64_t first = -1;
    const Inner* inner = nullptr;
  } outer;
  outer.inner = &inner;
  auto what = program(VITRINE_EMIT, {});
  for (const char* text : {"*(int64*)arg1 + 2", "*(int32*)(*(uint64*)(arg1 + 8) + 4)",
                           "*(uint8*)*(uint64*)(arg1 + 8)", "*(int8*)*(uint64*)(arg1 + 8)",
                           "*(int32*)arg2 + 1", "*(int32*)(*(uint64*)arg2 + 4)", "arg0 + 1"})
    ASSERT_TRUE(add(what, text)) << text;
  OwnTracer own;
  own.trace(vitrine_test_site, what);
  vitrine_test_fire(41, address_of(&outer), 0x10);
  const auto fires = own.take(1);
  ASSERT_EQ(fires.size(), 1u);
  const auto& got = fires[0].captures;
  ASSERT_EQ(got.size(), 7u);
  const auto number = [&](std::size_t i) { return static_cast<std::int64_t>(got[i].head.value); };
  EXPECT_EQ(number(0), 1);
  EXPECT_EQ(number(1), -7);
  EXPECT_EQ(number(2), 200);
  EXPECT_EQ(number(3), -56);
  for (const std::size_t unreadable : {4u, 5u}) {
    EXPECT_EQ(got[unreadable].head.state, VITRINE_CAPTURE_UNREADABLE);
    EXPECT_EQ(got[unreadable].head.value, 0x10u);
  }
  EXPECT_EQ(got[6].head.state, VITRINE_CAPTURED) << "one that fails spoils no other";
  EXPECT_EQ(number(6), 42);
}

vitrine_capture text_of_length(const vitrine_operand& address, const vitrine_operand& length,
                               std::uint32_t most) {
  vitrine_capture capture = bytes(address, length, most);
  capture.form = VITRINE_CAPTURE_STRING_AT;
  return capture;
}

TEST(Calculation, TextOfALengthEndsAtItsNul) {
  OwnTracer own;
  own.trace(vitrine_test_site,
            program(VITRINE_EMIT, {text_of_length(in_register(rdi), in_register(rdx), 256),
                                   text_of_length(in_register(rdi), in_register(rdx), 4),
                                   bytes(in_register(rdi), in_register(rdx))}));
  const auto fired = [&](const char* at, std::size_t length) {
    vitrine_test_fire(address_of(at), 0, length);
    auto fires = own.take(1);
    EXPECT_EQ(fires.size(), 1u);
    return fires;
  };
  struct Row {
    std::string memory;
    std::size_t length;
    std::string text, cut_text;
    bool cut;
  };
  const Row rows[] = {{"kettle", 6, "kettle", "kett", true},
                      {"kettle", 3, "ket", "ket", false},
                      {"kettle", 4, "kett", "kett", false},
                      {"kettle", 1, "k", "k", false},
                      {"kettle", 0, "", "", false},
                      {std::string("ab\0cd", 5), 5, "ab", "ab", false},
                      {std::string("abcd\0e", 6), 6, "abcd", "abcd", true},
                      {std::string("abc\0e", 5), 4, "abc", "abc", false},
                      {std::string("\0bc", 3), 3, "", "", false}};
  for (const Row& row : rows) {
    const auto fires = fired(row.memory.c_str(), row.length);
    const auto& got = fires.at(0).captures;
    EXPECT_EQ(text_of(got[0]), row.text);
    EXPECT_FALSE(got[0].head.cut) << row.memory;
    EXPECT_EQ(text_of(got[1]), row.cut_text);
    EXPECT_EQ(got[1].head.cut != 0, row.cut) << row.memory << " " << row.length;
    EXPECT_EQ(text_of(got[2]), row.memory.substr(0, row.length));
  }
  // Up to the last byte of a page behind which there is none.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  auto* pages = static_cast<char*>(
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(pages), MAP_FAILED);
  ASSERT_EQ(::mprotect(pages + page, page, PROT_NONE), 0);
  std::memcpy(pages + page - 3, "end", 3);
  EXPECT_EQ(text_of(fired(pages + page - 3, 3).at(0).captures[0]), "end");
  EXPECT_EQ(fired(pages + page - 3, 4).at(0).captures[0].head.state, VITRINE_CAPTURE_UNREADABLE);
  pages[page - 1] = '\0';
  EXPECT_EQ(text_of(fired(pages + page - 3, 200).at(0).captures[0]), "en");
  ::munmap(pages, 2 * page);
}

TEST(Calculation, NullIsAGroupOfItsOwn) {
  TracerOptions options;
  options.reductions = true;
  options.labels = false;
  OwnTracer own(options);
  auto what = program(VITRINE_COUNT, {string(in_register(rdi))});
  what.groups = 1;
  own.trace(vitrine_test_site, what);
  vitrine_test_fire(0);
  vitrine_test_fire(0);
  vitrine_test_fire(0x10);
  vitrine_test_fire(address_of("text"));
  const auto rows = own.tracer->read_reductions();
  ASSERT_TRUE(rows);
  std::map<std::uint64_t, std::uint64_t> counts;
  for (const ReductionRow& row : *rows)
    counts[row.arguments.at(0).text ? 99 : row.arguments[0].value] += row.count;
  EXPECT_EQ(counts,
            (std::map<std::uint64_t, std::uint64_t>{{0, 1}, {VITRINE_NULL_TEXT, 2}, {99, 1}}));
}

TEST(Calculation, SumsDoNotWrap) {
  constexpr std::uint64_t near_most = ~std::uint64_t{0} - 1;
  constexpr std::uint64_t least = std::uint64_t{1} << 63;
  struct Row {
    bool is_signed;
    std::vector<std::uint64_t> values;
  };
  const Row rows[] = {{false, {near_most, near_most, 5}},
                      {false, {least, least}},
                      {true, {least, least, least}},
                      {true, {least - 1, least - 1, 3}},
                      {true, {~std::uint64_t{0}, 1, ~std::uint64_t{0}}},
                      {true, {least - 1, 7, least, least}},
                      {true, {5, ~std::uint64_t{0}}}};
  for (const Row& row : rows) {
    TracerOptions options;
    options.reductions = true;
    options.labels = false;
    OwnTracer own(options);
    const std::uint8_t flags = row.is_signed ? VITRINE_SIGNED : 0;
    auto what = program(VITRINE_SUM, {value(in_register(rdi, 8, flags))});
    what.value = 0;
    own.trace(vitrine_test_site, what);
    constexpr int threads = 4, each = 500;
    std::vector<std::thread> running;
    for (int t = 0; t < threads; ++t)
      running.emplace_back([&] {
        for (int i = 0; i < each; ++i)
          for (const std::uint64_t word : row.values) vitrine_test_fire(word);
      });
    for (std::thread& thread : running) thread.join();
    Wide sum = 0;
    for (const std::uint64_t word : row.values)
      sum += row.is_signed ? static_cast<Wide>(static_cast<std::int64_t>(word))
                           : static_cast<Wide>(word);
    sum *= threads * each;
    const auto read = own.tracer->read_reductions();
    ASSERT_TRUE(read);
    ASSERT_EQ(read->size(), 1u);
    EXPECT_EQ(read->front().sum, static_cast<std::uint64_t>(sum));
    EXPECT_EQ(read->front().sum_high, static_cast<std::uint64_t>(sum >> 64));
  }
}

TEST(Calculation, ManyProgramsAreInManyTables) {
  TracerOptions options;
  options.reductions = true;
  options.labels = false;
  OwnTracer own(options);
  auto what = program(VITRINE_COUNT, {});
  const auto count_of = [&](std::uint32_t probe) {
    const auto rows = own.tracer->read_reductions();
    for (const ReductionRow& row : *rows)
      if (row.probe == probe) return row.count;
    return std::uint64_t{0};
  };
  for (const std::uint32_t index : {0U, 255U, 256U, 100'000U, (1U << 20) - 1}) {
    what.probe = index;
    own.trace(vitrine_test_site, what, index);
    for (int i = 0; i < 3; ++i) vitrine_test_fire(0);
    EXPECT_EQ(count_of(index), 3u);
    own.attachment.detach();
  }
  const auto refused = own.tracer->set_program(1U << 20, what);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::limit);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("at most 1048576"));
}

}  // namespace
}  // namespace vitrine::bpf
