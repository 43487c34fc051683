// What is added up in the kernel equals what was fired.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <thread>

#include "bpf/own_labels.hpp"
#include "bpf/own_probe.hpp"
#include "bpf/own_reductions.hpp"
#include "query/buckets.h"

namespace vitrine::bpf {
namespace {

using namespace std::chrono_literals;
using namespace vitrine::test;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Reductions, CountExactlyFromManyThreads) {
  OwnTracer own(adding_up());
  auto what = program(VITRINE_COUNT, {});
  what.probe = 5;
  own.trace(vitrine_test_site, what, 1);
  constexpr std::uint64_t threads = 8, each = 20000;
  std::vector<std::thread> running;
  for (std::uint64_t t = 0; t < threads; ++t)
    running.emplace_back([] {
      for (std::uint64_t i = 0; i < each; ++i) vitrine_test_fire(i);
    });
  for (std::thread& thread : running) thread.join();
  const auto rows = rows_of(own);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].probe, 5u);
  EXPECT_EQ(rows[0].count, threads * each);
}

TEST(Reductions, CountInGroupsOfArguments) {
  OwnTracer own(adding_up());
  auto what = program(VITRINE_COUNT, {value(in_register(rdi)), string(in_register(rsi))});
  what.groups = 2;
  what.group[0] = 0;
  what.group[1] = 1;
  own.trace(vitrine_test_site, what);
  std::map<std::pair<std::uint64_t, std::string>, std::uint64_t> expected;
  const std::string names[] = {"kettle", "teapot", "", std::string(128, 'x')};
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::string& name = names[i % 4];
    vitrine_test_fire(i % 3, address_of(name.c_str()));
    ++expected[{i % 3, name}];
  }
  std::map<std::pair<std::uint64_t, std::string>, std::uint64_t> seen;
  for (const ReductionRow& row : rows_of(own)) {
    ASSERT_EQ(row.arguments.size(), 2u);
    ASSERT_TRUE(row.arguments[1].text);
    seen[{row.arguments[0].value, *row.arguments[1].text}] = row.count;
  }
  EXPECT_EQ(seen, expected);
}

TEST(Reductions, GroupsOfTextOfWhichOnlyTheBeginningIsKeptAreMarked) {
  for (const std::uint32_t captured : {8u, 256u}) {
    OwnTracer own(adding_up());
    auto what = program(VITRINE_COUNT, {string(in_register(rdi), captured)});
    what.groups = 1;
    own.trace(vitrine_test_site, what);
    const std::string beginning(std::min<std::size_t>(captured, VITRINE_NAME_BYTES), 'x');
    for (const char* rest : {"", "1", "2"})
      vitrine_test_fire(address_of((beginning + rest).c_str()));
    std::map<std::pair<std::string, bool>, std::uint64_t> seen;
    for (const ReductionRow& row : rows_of(own))
      seen[{row.arguments.at(0).text.value_or("?"), row.arguments[0].cut}] += row.count;
    const decltype(seen) expected{{{beginning, false}, 1}, {{beginning, true}, 2}};
    EXPECT_EQ(seen, expected);
    EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_NAMES_CUT], 1u);
  }
}

TEST(Reductions, SumAndHistogramOfSignedAndUnsigned) {
  for (const bool is_signed : {false, true}) {
    OwnTracer own(adding_up());
    auto what =
        program(VITRINE_HISTOGRAM, {value(in_register(rdi, 8, is_signed ? VITRINE_SIGNED : 0))});
    what.value = 0;
    own.trace(vitrine_test_site, what);
    std::uint64_t sum = 0;
    std::map<std::int32_t, std::uint64_t> buckets;
    const std::int64_t from = is_signed ? -1000 : 0;
    for (std::int64_t i = from; i < 5000; i += 7) {
      const auto word = static_cast<std::uint64_t>(i);
      vitrine_test_fire(word);
      sum += word;
      ++buckets[vitrine_bucket_of(word, is_signed)];
    }
    const auto rows = rows_of(own);
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].sum, sum);
    EXPECT_EQ(static_cast<std::int64_t>(rows[0].least), from);
    EXPECT_EQ(rows[0].most, is_signed ? 4999u : 4998u);
    EXPECT_EQ(rows[0].buckets, buckets);
  }
}

TEST(Reductions, RefuseFloatingPointAndTellWhatCouldNotBeRead) {
  OwnTracer own(adding_up());
  auto what = program(VITRINE_SUM, {value(in_register(rdi, 8, VITRINE_FLOAT))});
  what.value = 0;
  EXPECT_FALSE(own.tracer->set_program(0, what));
  what = program(VITRINE_SUM, {value(in_memory(rdi, 0, 8))});
  what.value = 0;
  own.trace(vitrine_test_site, what);
  const std::uint64_t five = 5;
  vitrine_test_fire(address_of(&five));
  vitrine_test_fire(0x10);
  const auto rows = rows_of(own);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].count, 1u);
  EXPECT_EQ(rows[0].sum, 5u);
  EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_UNREADABLE], 1u);
}

TEST(Reductions, LatencyOfEachThread) {
  OwnTracer own(adding_up());
  own.trace(vitrine_test_site, program(VITRINE_LATENCY_START, {}), 0);
  own.trace(vitrine_test_end_site, program(VITRINE_LATENCY_END, {}), 1);
  const auto spend = [](std::chrono::milliseconds time) {
    vitrine_test_fire(0);
    std::this_thread::sleep_for(time);
    vitrine_test_end(0);
  };
  std::thread other([&] { spend(80ms); });
  spend(10ms);
  spend(10ms);
  other.join();
  vitrine_test_end(0);   // never begun
  vitrine_test_fire(0);  // begun twice
  vitrine_test_fire(0);
  const auto rows = rows_of(own);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].count, 3u);
  EXPECT_GE(rows[0].least, 10'000'000u);
  EXPECT_GE(rows[0].most, 80'000'000u);
  EXPECT_GE(rows[0].sum, 100'000'000u);
  const auto counters = own.tracer->counters();
  EXPECT_EQ(counters[VITRINE_TRACE_ENDS_UNMATCHED], 1u);
  EXPECT_EQ(counters[VITRINE_TRACE_STARTS_LOST], 1u);
}

TEST(Reductions, LatencyMatchedByAnArgumentAcrossThreads) {
  OwnTracer own(adding_up());
  auto start = program(VITRINE_LATENCY_START, {value(in_register(rdi))});
  auto end = program(VITRINE_LATENCY_END, {value(in_register(rdi)), value(in_register(rsi))});
  start.match = end.match = 0;
  end.groups = 1;
  end.group[0] = 1;
  own.trace(vitrine_test_site, start, 0);
  own.trace(vitrine_test_end_site, end, 1);
  for (std::uint64_t i = 0; i < 100; ++i) vitrine_test_fire(i);
  std::thread([] {
    for (std::uint64_t i = 0; i < 100; ++i) vitrine_test_end(99 - i, i % 2);
  }).join();
  const auto rows = rows_of(own);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].count, 50u);
  EXPECT_EQ(rows[1].count, 50u);
}

TEST(Reductions, LatencyMatchedByTextThatIsThereAsAWhole) {
  OwnTracer own(adding_up());
  auto start = program(VITRINE_LATENCY_START, {string(in_register(rdi), 200)});
  auto end = program(VITRINE_LATENCY_END, {string(in_register(rdi), 200)});
  start.match = end.match = 0;
  own.trace(vitrine_test_site, start, 0);
  own.trace(vitrine_test_end_site, end, 1);
  const auto pair = [](const std::string& started, const std::string& ended) {
    vitrine_test_fire(address_of(started.c_str()));
    vitrine_test_end(address_of(ended.c_str()));
  };
  pair("request", "request");
  const std::string hashed(128, 'h'), captured(200, 'c');
  pair(hashed, hashed);
  pair(hashed + "1", hashed + "2");
  pair(captured + "1", captured + "2");
  const auto rows = rows_of(own);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].count, 2u);
  EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_UNREADABLE], 4u);
}

/// Runs `body` in a child, with this number if one is given, until its end. Returns its number; -1: none with
/// that number could be made.
template <class Body>
pid_t run_child(pid_t number, Body body) {
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  if (number != 0) {
    arguments.set_tid = reinterpret_cast<std::uintptr_t>(&number);
    arguments.set_tid_size = 1;
  }
  const auto pid = static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
  if (pid == 0) {
    body();
    ::_exit(0);
  }
  if (pid > 0) ::waitpid(pid, nullptr, 0);
  return pid;
}

TEST(Reductions, AStartIsNotThatOfALaterProcessWithItsNumber) {
  for (const bool by_argument : {false, true}) {
    OwnTracer own(adding_up());
    auto start = program(VITRINE_LATENCY_START, {value(in_register(rdi))});
    auto end = program(VITRINE_LATENCY_END, {value(in_register(rdi))});
    if (by_argument) start.match = end.match = 0;
    own.trace(vitrine_test_site, start, 0, std::nullopt);
    own.trace(vitrine_test_end_site, end, 1, std::nullopt);
    const pid_t first = run_child(0, [] { vitrine_test_fire(7); });
    ASSERT_GT(first, 0);
    ASSERT_EQ(run_child(first, [] { vitrine_test_end(7); }), first);
    EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_STARTS], 1u);
    EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_ENDS_UNMATCHED], 1u);
    EXPECT_THAT(rows_of(own), IsEmpty());
    ASSERT_EQ(run_child(first,
                        [] {
                          vitrine_test_fire(7);
                          vitrine_test_end(7);
                        }),
              first);
    const auto rows = rows_of(own);
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].count, 1u);
  }
}

TEST(Reductions, SayWhenThereIsNoRoomForAnotherGroup) {
  TracerOptions options = adding_up();
  options.groups = 16;
  options.programs = 2;
  OwnTracer own(options);
  auto what = program(VITRINE_COUNT, {value(in_register(rdi))});
  what.groups = 1;
  own.trace(vitrine_test_site, what);
  for (std::uint64_t i = 0; i < 1000; ++i) vitrine_test_fire(i);
  std::uint64_t total = 0;
  std::uint64_t others = 0;
  for (const ReductionRow& row : rows_of(own)) {
    total += row.count;
    if (row.others) others += row.count;
  }
  EXPECT_EQ(total, 1000u);
  EXPECT_GT(others, 0u);
  EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_GROUPS_FULL], others);
}

TEST(Reductions, TheOldestStartsMakeRoom) {
  TracerOptions options = adding_up();
  options.starts = 4096;
  OwnTracer own(options);
  auto start = program(VITRINE_LATENCY_START, {value(in_register(rdi))});
  auto end = program(VITRINE_LATENCY_END, {value(in_register(rdi))});
  start.match = end.match = 0;
  own.trace(vitrine_test_site, start, 0);
  own.trace(vitrine_test_end_site, end, 1);
  constexpr std::uint64_t starts = 20'000;
  for (std::uint64_t i = 0; i < starts; ++i) vitrine_test_fire(i);
  vitrine_test_end(0);  // gone
  for (std::uint64_t i = starts - 100; i < starts; ++i) vitrine_test_end(i);
  const auto rows = rows_of(own);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].count, 100u);
  const auto counters = own.tracer->counters();
  EXPECT_EQ(counters[VITRINE_TRACE_ENDS_UNMATCHED], 1u);
  EXPECT_EQ(counters[VITRINE_TRACE_STARTS], starts);
  EXPECT_EQ(counters[VITRINE_TRACE_STARTS_ENDED], 100u);
}

}  // namespace
}  // namespace vitrine::bpf
