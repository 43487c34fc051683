// What is added up in the kernel equals what was fired.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "bpf/own_labels.hpp"
#include "bpf/own_probe.hpp"
#include "query/buckets.h"
#include "query/compile.hpp"

namespace vitrine::bpf {
namespace {

using namespace std::chrono_literals;
using namespace vitrine::test;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

TracerOptions adding_up() {
  TracerOptions options;
  options.reductions = true;
  options.labels = false;
  return options;
}

std::vector<ReductionRow> rows_of(OwnTracer& own) {
  auto rows = own.tracer->read_reductions();
  EXPECT_TRUE(rows) << rows.error().message;
  return rows ? *rows : std::vector<ReductionRow>{};
}

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

thread_local std::uint64_t v1_slot = 0;
thread_local std::uint64_t record_slot = 0;

vitrine_target target_with(std::uint16_t tenant_index) {
  vitrine_target target{};
  target.address_mask = ~0ULL;
  target.definition_count = 2;
  const auto offset = [](const void* slot) {
    return static_cast<std::int64_t>(address_of(slot) - address_of(__builtin_thread_pointer()));
  };
  target.definitions[0].shape = VITRINE_LABEL_ARRAY;
  target.definitions[0].tls_offset = offset(&v1_slot);
  target.definitions[1].shape = VITRINE_SIZED_RECORD;
  target.definitions[1].tls_offset = offset(&record_slot);
  target.definitions[1].selected_key[0] = static_cast<__u16>(tenant_index + 1);
  return target;
}

using Count = std::pair<std::vector<std::string>, std::uint64_t>;

std::vector<Count> counts_by_label(OwnTracer& own) {
  std::vector<Count> out;
  for (const ReductionRow& row : rows_of(own)) {
    std::vector<std::string> values;
    for (const auto& label : row.labels)
      values.push_back(!label ? "(not set)" : label->text.value_or("(forgotten)"));
    out.emplace_back(values, row.count);
  }
  return out;
}

class ByLabel : public testing::Test {
 protected:
  void SetUp() override {
    v1_slot = record_slot = 0;
    what = program(VITRINE_COUNT, {});
    what.group_labels = 1;
  }
  static TracerOptions options() {
    TracerOptions out = adding_up();
    out.selected = {{VITRINE_SELECT_LABEL, "tenant"}};
    return out;
  }
  vitrine_site_program what{};
};

TEST_F(ByLabel, OfForeignSets) {
  OwnTracer own(options());
  own.trace(vitrine_test_site, what);
  ASSERT_TRUE(own.tracer->want(::getpid(), target_with(0)));
  const ForeignSet foreign({{"route!", "/a"}, {"tenant", "acme"}, {"tenant", "later"}});
  const layout::SetV1 without{address_of(foreign.entries.data()), 1, 3};
  vitrine_test_fire(0);
  v1_slot = address_of(&foreign.set);
  for (int i = 0; i < 3; ++i) vitrine_test_fire(0);
  v1_slot = address_of(&without);
  for (int i = 0; i < 2; ++i) vitrine_test_fire(0);
  EXPECT_THAT(counts_by_label(own), UnorderedElementsAre(Pair(ElementsAre("acme"), 3),
                                                         Pair(ElementsAre("(not set)"), 3)));
}

TEST_F(ByLabel, OfOurWritersSetsThatAreLookedAtOnce) {
  OwnTracer own(options());
  own.trace(vitrine_test_site, what);
  ASSERT_TRUE(own.tracer->want(::getpid(), target_with(0)));
  struct {
    layout::SerialSet head;
    layout::Label entry;
    char text[16] = "tenantacme";
  } block{};
  for (std::uint64_t serial = 1; serial <= 3; ++serial) {
    block.text[9] = static_cast<char>('0' + serial);
    block.entry = {{6, address_of(block.text)}, {4, address_of(block.text + 6)}};
    block.head = {{address_of(&block.entry), 1, 1},
                  {layout::serial_magic, serial, sizeof block, 0, address_of(&block)}};
    v1_slot = address_of(&block);
    for (std::uint64_t i = 0; i < serial; ++i) vitrine_test_fire(0);
    block.text[9] = '!';  // unseen: the serial says that it is the set that was looked at
    vitrine_test_fire(0);
  }
  EXPECT_THAT(counts_by_label(own),
              UnorderedElementsAre(Pair(ElementsAre("acm1"), 2), Pair(ElementsAre("acm2"), 3),
                                   Pair(ElementsAre("acm3"), 4)));
}

TEST_F(ByLabel, OfThreadRecordsAndTheirTraceIds) {
  TracerOptions with_ids = options();
  with_ids.selected.push_back({VITRINE_SELECT_TRACE_ID, {}});
  with_ids.selected.push_back({VITRINE_SELECT_SPAN_ID, {}});
  OwnTracer own(with_ids);
  what.group_labels = 7;
  own.trace(vitrine_test_site, what);
  ASSERT_TRUE(own.tracer->want(::getpid(), target_with(4)));
  // trace id, span id, valid, flags, size; {3, "x"}, {4, "old"}, {4, "acme"}: the last one counts
  const std::string attributes(
      "\x03\x01x\x04\x03old\x04\x04"
      "acme",
      14);
  alignas(8) char record[64]{};
  std::memset(record, 7, 16);
  std::memset(record + 16, 8, 8);
  record[24] = 1;
  record[26] = static_cast<char>(attributes.size());
  std::memcpy(record + 28, attributes.data(), attributes.size());
  record_slot = address_of(record);
  vitrine_test_fire(0);
  record[24] = 0;  // being written
  vitrine_test_fire(0);
  const std::string trace_id(16, '\x07'), span_id(8, '\x08'), none = "(not set)";
  EXPECT_THAT(counts_by_label(own),
              UnorderedElementsAre(Pair(ElementsAre("acme", trace_id, span_id), 1),
                                   Pair(ElementsAre(none, none, none), 1)));
}

// What was found in a block of vitrine's writer is kept, but not longer than its keys have the same names.
TEST_F(ByLabel, OfARecordInOurWritersBlockWhoseKeyIsNamedLater) {
  OwnTracer own(options());
  own.trace(vitrine_test_site, what);
  OwnSet set;
  Record record;
  record.put(9, 8, {"acme"});
  set.put({{"route", "/a"}}, 1);
  auto& head = *reinterpret_cast<layout::SerialSet*>(set.block);
  const std::size_t at = (head.trailer.total_bytes + 7) / 8 * 8;
  std::memcpy(set.block + at, record.bytes, 256);
  head.trailer.total_bytes = static_cast<std::uint32_t>(at + 256);
  v1_slot = address_of(set.block);
  record_slot = address_of(set.block + at);
  vitrine_target target = target_with(0);
  target.definitions[1].selected_key[0] = 0;
  ASSERT_TRUE(own.tracer->want(::getpid(), target));
  for (int i = 0; i < 2; ++i) vitrine_test_fire(0);
  ASSERT_TRUE(own.tracer->want(::getpid(), target_with(0)));
  for (int i = 0; i < 3; ++i) vitrine_test_fire(0);
  EXPECT_THAT(counts_by_label(own), UnorderedElementsAre(Pair(ElementsAre("(not set)"), 2),
                                                         Pair(ElementsAre("acme"), 3)));
}

TEST_F(ByLabel, LongValuesAreCutAndCounted) {
  OwnTracer own(options());
  own.trace(vitrine_test_site, what);
  ASSERT_TRUE(own.tracer->want(::getpid(), target_with(0)));
  const std::string value(300, 'v');
  const ForeignSet cut({{"tenant", value}}),
      whole({{"tenant", value.substr(0, VITRINE_NAME_BYTES)}});
  v1_slot = address_of(&cut.set);
  vitrine_test_fire(0);
  v1_slot = address_of(&whole.set);
  vitrine_test_fire(0);
  vitrine_test_fire(0);
  const auto rows = rows_of(own);
  ASSERT_EQ(rows.size(), 2u);
  for (const ReductionRow& row : rows) {
    ASSERT_TRUE(row.labels.at(0));
    EXPECT_EQ(row.labels[0]->text, value.substr(0, VITRINE_NAME_BYTES));
    EXPECT_EQ(row.labels[0]->cut, row.count == 1);
  }
  EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_NAMES_CUT], 1u);
}

// A condition has its label looked up, but groups do not have its texts.
TEST_F(ByLabel, ValuesThatNoGroupHasAreNotKept) {
  OwnTracer own(options());
  what.group_labels = 0;
  what.where.count = 1;
  what.where.tests[0].subject = VITRINE_ON_LABEL;
  what.where.tests[0].comparison = VITRINE_NE;
  what.where.tests[0].operand = query::string_hash(own.tracer->hash_key(), "x");
  own.trace(vitrine_test_site, what);
  ASSERT_TRUE(own.tracer->want(::getpid(), target_with(0)));
  const ForeignSet cut({{"tenant", std::string(300, 'v')}});
  v1_slot = address_of(&cut.set);
  vitrine_test_fire(0);
  ASSERT_EQ(rows_of(own).size(), 1u);
  EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_NAMES_CUT], 0u);
}

std::string attribute(char key, const std::string& value) {
  return std::string{key, static_cast<char>(value.size())} + value;
}

TEST_F(ByLabel, RecordsWithMoreAttributesThanAreReadAreCounted) {
  OwnTracer own(options());
  own.trace(vitrine_test_site, what);
  ASSERT_TRUE(own.tracer->want(::getpid(), target_with(4)));
  alignas(8) char record[2048]{};
  const auto put = [&](const std::string& attributes) {
    record[24] = 1;
    const auto size = static_cast<std::uint16_t>(attributes.size());
    std::memcpy(record + 26, &size, sizeof size);
    std::memcpy(record + 28, attributes.data(), attributes.size());
    record_slot = address_of(record);
    vitrine_test_fire(0);
  };
  std::string before;
  for (int i = 0; i < 4; ++i) before += attribute(1, std::string(250, 'a'));
  const std::string acme = attribute(4, "acme");
  const std::size_t left = 1024 - before.size() - acme.size() - 2;
  put(before + attribute(2, std::string(left, 'b')) + acme);
  EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_CUT], 0u);
  put(before + attribute(2, std::string(left + 1, 'b')) + acme);
  EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_CUT], 1u);
  EXPECT_THAT(counts_by_label(own), UnorderedElementsAre(Pair(ElementsAre("acme"), 1),
                                                         Pair(ElementsAre("(not set)"), 1)));
}

TEST_F(ByLabel, OfRecordsThatGoOnInTheNextPage) {
  OwnTracer own(options());
  own.trace(vitrine_test_site, what);
  auto target = target_with(4);
  target.definitions[1].shape = VITRINE_COUNTED_RECORD;
  ASSERT_TRUE(own.tracer->want(::getpid(), target));
  constexpr std::size_t page = 4096, header = 34;
  auto* pages = static_cast<char*>(
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  /// With two attributes, of which `in_page` bytes are in the first page.
  const auto fire = [&](std::size_t in_page, const std::string& tenant) {
    const std::string attributes = attribute(3, "x") + attribute(4, tenant);
    char* record = pages + page - header - in_page;
    record[32] = 1;
    record[33] = 2;
    std::memcpy(record + header, attributes.data(), attributes.size());
    record_slot = address_of(record);
    vitrine_test_fire(0);
  };
  fire(5, "over");
  fire(0, "behind");
  fire(7 + 2, "within");
  EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_CUT], 0u);
  fire(3 + 2 + 4, "last");  // the next page is not needed
  ::mprotect(pages + page, page, PROT_NONE);
  vitrine_test_fire(0);
  EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_CUT], 0u);
  record_slot += 4;  // seen from there, its first attribute goes on in the page that is gone
  pages[page - 9 + 4 - 2] = 1;
  pages[page - 9 + 4 - 1] = 2;
  vitrine_test_fire(0);
  EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_CUT], 1u);
  EXPECT_THAT(counts_by_label(own),
              UnorderedElementsAre(Pair(ElementsAre("over"), 1), Pair(ElementsAre("behind"), 1),
                                   Pair(ElementsAre("within"), 1), Pair(ElementsAre("last"), 2),
                                   Pair(ElementsAre("(not set)"), 1)));
  record_slot = 0;
  ::munmap(pages, 2 * page);
}

constexpr std::uint32_t for_the_reader = VITRINE_FIRE_UNKNOWN | VITRINE_FIRE_UNTESTED;

TEST_F(ByLabel, FiresOfAnUnknownProcessAreForTheReaderToAddUp) {
  OwnTracer own(options());
  own.trace(vitrine_test_site, what);
  for (int i = 0; i < 5; ++i) vitrine_test_fire(0);
  const auto fires = own.take(6);
  ASSERT_EQ(fires.size(), 5u);
  for (const Fire& fire : fires) {
    EXPECT_EQ(fire.head.event.kind, static_cast<std::uint32_t>(VITRINE_RECORD_FIRE));
    EXPECT_EQ(fire.head.event.flags, for_the_reader);
    EXPECT_EQ(fire.head.event.pid, ::getpid());
  }
  EXPECT_THAT(rows_of(own), IsEmpty());
  EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_UNKNOWN], 5u);
}

TEST_F(ByLabel, FiresOfAnUnknownProcessAreForTheReaderToTest) {
  for (const vitrine_role role : {VITRINE_COUNT, VITRINE_EMIT}) {
    OwnTracer own(options());
    what.role = role;
    what.where.count = 1;
    what.where.tests[0].subject = VITRINE_ON_LABEL;
    what.where.tests[0].comparison = VITRINE_EQ;
    what.where.tests[0].operand = query::string_hash(own.tracer->hash_key(), "acme");
    own.trace(vitrine_test_site, what);
    for (int i = 0; i < 3; ++i) vitrine_test_fire(0);
    const auto fires = own.take(4);
    ASSERT_EQ(fires.size(), 3u);
    for (const Fire& fire : fires) EXPECT_EQ(fire.head.event.flags, for_the_reader);
  }
}

TEST_F(ByLabel, LatenciesOfAnUnknownProcessAreMeasuredForTheReader) {
  OwnTracer own(options());
  what.role = VITRINE_LATENCY_END;
  own.trace(vitrine_test_site, program(VITRINE_LATENCY_START, {}), 1);
  own.trace(vitrine_test_end_site, what, 0);
  vitrine_test_end(0);  // has no start
  vitrine_test_fire(0);
  std::this_thread::sleep_for(10ms);
  vitrine_test_end(0);
  const auto fires = own.take(2);
  ASSERT_EQ(fires.size(), 1u);
  EXPECT_EQ(fires[0].head.event.kind, static_cast<std::uint32_t>(VITRINE_RECORD_LATENCY));
  EXPECT_EQ(fires[0].head.event.flags, for_the_reader);
  EXPECT_GE(fires[0].head.event.time_ns, fires[0].head.address + 10'000'000);
  EXPECT_THAT(rows_of(own), IsEmpty());
  EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_ENDS_UNMATCHED], 1u);
}

// Two threads end what a third one starts, all with one key: an end takes the start that it has read, and no other
// (starts_model_test.cpp).
TEST_F(ByLabel, EndsAtOnceTakeEachStartOnce) {
  OwnTracer own(options());
  what = program(VITRINE_LATENCY_END, {value(in_register(rdi))});
  what.group_labels = 1;
  auto start = program(VITRINE_LATENCY_START, {value(in_register(rdi))});
  start.match = what.match = 0;
  own.trace(vitrine_test_site, start, 1);
  own.trace(vitrine_test_end_site, what, 0);
  std::atomic<bool> done = false;
  std::vector<std::thread> ends;
  for (int i = 0; i < 2; ++i)
    ends.emplace_back([&] {
      while (!done) vitrine_test_end(7);
    });
  std::thread starts([&] {
    for (int i = 0; i < 100'000; ++i) vitrine_test_fire(7);
    done = true;
  });
  std::set<std::uint64_t> began;
  std::uint64_t ended = 0, twice = 0;
  const auto take = [&](std::chrono::milliseconds time) {
    return own.tracer->poll(time, [&](const Fire& fire) {
      ++ended;
      twice += began.insert(fire.head.address).second ? 0U : 1U;
    });
  };
  while (!done) ASSERT_TRUE(take(10ms));
  starts.join();
  for (std::thread& thread : ends) thread.join();
  vitrine_test_end(7);
  while (take(10ms).value() != 0) {
  }
  EXPECT_GT(ended, 1000U);
  EXPECT_EQ(twice, 0U);
  const auto counters = own.tracer->counters();
  EXPECT_EQ(counters[VITRINE_TRACE_LOST], 0U);
  EXPECT_EQ(counters[VITRINE_TRACE_STARTS_ENDED], ended);
  EXPECT_EQ(counters[VITRINE_TRACE_STARTS],
            counters[VITRINE_TRACE_STARTS_ENDED] + counters[VITRINE_TRACE_STARTS_LOST]);
}

}  // namespace
}  // namespace vitrine::bpf
