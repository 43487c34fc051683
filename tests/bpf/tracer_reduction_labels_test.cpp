// What is added up in the kernel by label is what threads had when they fired.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "bpf/own_labels.hpp"
#include "bpf/own_probe.hpp"
#include "bpf/own_reductions.hpp"
#include "query/compile.hpp"

namespace vitrine::bpf {
namespace {

using namespace std::chrono_literals;
using namespace vitrine::test;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

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
  std::atomic<std::uint64_t> ended = 0;
  std::thread starts([&] {
    // On a busy machine the ends are not on a CPU at once.
    for (int i = 0; i < 100'000 || ended < 2'000; ++i) vitrine_test_fire(7);
    done = true;
  });
  std::set<std::uint64_t> began;
  std::uint64_t twice = 0;
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
