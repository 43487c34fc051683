#include "query/reduction.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "query/site.hpp"

namespace vitrine::query {
namespace {

using test::OrderFire;
using test::OrderSite;
using testing::ElementsAre;
using testing::SizeIs;
using Role = BoundReduction::Role;

/// A reduction of the order site, and fires of it.
class Reduction : public testing::Test {
 protected:
  void ask(ReductionKind kind, std::string_view by = {}, std::string_view value = {}) {
    query_ = {};
    query_.kind = kind;
    if (!by.empty()) query_.by = parse_items(by).value();
    if (!value.empty()) query_.value = parse_item(value).value();
  }

  void fire(Reducer& reducer, OrderFire order, Role role = Role::measure) {
    std::vector<Capture> captures;
    const BoundReduction bound = query::bind(query_, role, site_.arguments(), captures);
    reducer.add(order.with(captures), bound);
  }

  static OrderFire of_tenant(const std::string& tenant) {
    OrderFire order;
    order.labels.map["tenant"] = tenant;
    return order;
  }

  OrderSite site_;
  ReductionQuery query_;
};

TEST_F(Reduction, CountsByGroup) {
  ask(ReductionKind::count, "tenant, colour, absent");
  Reducer reducer(query_);
  for (const char* tenant : {"acme", "bolt", "acme", "acme"}) fire(reducer, of_tenant(tenant));
  const ReductionTable table = reducer.table();
  EXPECT_THAT(table.by, ElementsAre("tenant", "colour", "absent"));
  ASSERT_THAT(table.rows, SizeIs(2));
  EXPECT_EQ(table.rows[0].count, 3U) << "the largest first";
  EXPECT_EQ(table.rows[0].probe, "shop:order");
  EXPECT_THAT(table.rows[0].keys,
              ElementsAre(Key(test::text("acme")), Key(probe::EnumeratorValue{1, "RED"}), Key()));
  EXPECT_EQ(table.rows[1].count, 1U);
  EXPECT_EQ(table.others.count, 0U);
}

TEST_F(Reduction, TellsProbesAndMissingLabelsApart) {
  ask(ReductionKind::count, "tenant");
  Reducer reducer(query_);
  OrderFire order = of_tenant("");
  fire(reducer, order);
  order.fire.probe = "shop:refund";
  fire(reducer, order);
  order.labels.map.erase("tenant");
  fire(reducer, order);
  EXPECT_THAT(reducer.table().rows, SizeIs(3));
}

TEST_F(Reduction, SumsNumbers) {
  ask(ReductionKind::sum, "tenant", "price");
  Reducer reducer(query_);
  for (const double price : {2.5, 1.0, 4.0}) {
    OrderFire order;
    order.numbers[3] = price;
    fire(reducer, order);
  }
  OrderFire unreadable;
  unreadable.numbers.erase(3);
  fire(reducer, unreadable);
  const ReductionTable table = reducer.table();
  ASSERT_THAT(table.rows, SizeIs(1));
  EXPECT_EQ(table.rows[0].sum, Number(7.5));
  EXPECT_EQ(table.rows[0].least, Number(1.0));
  EXPECT_EQ(table.rows[0].greatest, Number(4.0));
  EXPECT_EQ(table.rows[0].count, 3U);
  EXPECT_TRUE(table.rows[0].histogram.empty());
  EXPECT_EQ(table.unread, 1U);
  EXPECT_EQ(table.value, "price");
}

/// Of a float argument the target chooses every bit: one NaN must not hide all other values.
TEST_F(Reduction, AddsUpNoValueThatIsNotFinite) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const ReductionKind kind : {ReductionKind::sum, ReductionKind::histogram}) {
    ask(kind, "", "price");
    Reducer reducer(query_);
    for (const double price : {2.5, std::nan(""), -std::nan(""), infinity, -infinity, 4.0}) {
      OrderFire order;
      order.numbers[3] = price;
      fire(reducer, order);
    }
    const ReductionTable table = reducer.table();
    ASSERT_THAT(table.rows, SizeIs(1));
    EXPECT_EQ(table.rows[0].sum, Number(6.5));
    EXPECT_EQ(table.rows[0].least, Number(2.5));
    EXPECT_EQ(table.rows[0].greatest, Number(4.0));
    EXPECT_EQ(table.rows[0].count, 2U);
    EXPECT_EQ(table.rows[0].histogram.count(), kind == ReductionKind::sum ? 0U : 2U);
    EXPECT_EQ(table.unread, 4U);
  }
}

TEST_F(Reduction, ASumStaysFinite) {
  constexpr double largest = std::numeric_limits<double>::max();
  Sum sum = largest;
  sum.add(largest);
  EXPECT_EQ(sum.to_double(), largest);
  for (int i = 0; i < 3; ++i) sum.add(-largest);
  EXPECT_EQ(sum.to_double(), -largest);
}

TEST_F(Reduction, EveryNanIsInOneGroup) {
  ask(ReductionKind::count, "price");
  Reducer reducer(query_);
  for (const double price : {std::nan(""), -std::nan("1"), std::nan("2")}) {
    OrderFire order;
    order.numbers[3] = price;
    fire(reducer, order);
  }
  EXPECT_THAT(reducer.table().rows, SizeIs(1));
}

TEST_F(Reduction, MakesHistograms) {
  ask(ReductionKind::histogram, {}, "id");
  Reducer reducer(query_);
  for (const std::int64_t id : {3, 3, -100}) {
    OrderFire order;
    order.numbers[0] = id;
    fire(reducer, order);
  }
  const ReductionRow row = reducer.table().rows.at(0);
  EXPECT_EQ(row.histogram.count(), 3U);
  EXPECT_EQ(row.histogram.buckets().back(), (Histogram::Bucket{3, 2}));
  EXPECT_EQ(row.least, Number(std::int64_t{-100}));
}

TEST_F(Reduction, MeasuresLatencyByThread) {
  ask(ReductionKind::latency, "tenant");
  Reducer reducer(query_);
  const auto at = [&](std::int32_t tid, std::uint64_t ns, Role role, const char* tenant) {
    OrderFire order = of_tenant(tenant);
    order.fire.tid = tid;
    order.fire.time_ns = ns;
    fire(reducer, order, role);
  };
  at(1, 1000, Role::start, "none yet");
  at(2, 1500, Role::start, "none yet");
  at(1, 3000, Role::end, "acme");
  at(2, 2000, Role::end, "bolt");
  at(2, 9000, Role::end, "bolt");          // has no start
  at(3, 10'000, Role::start, "none yet");  // forgotten for the next
  at(3, 20'000, Role::start, "none yet");
  at(3, 20'700, Role::end, "bolt");
  const ReductionTable table = reducer.table();
  ASSERT_THAT(table.rows, SizeIs(2));
  EXPECT_THAT(table.rows[0].keys, ElementsAre(Key(test::text("acme")))) << "the longest in all";
  EXPECT_EQ(table.rows[0].sum, Number(std::int64_t{2000}));
  EXPECT_EQ(table.rows[1].count, 2U);
  EXPECT_EQ(table.rows[1].sum, Number(std::int64_t{1200}));
  EXPECT_EQ(table.rows[1].least, Number(std::int64_t{500}));
  EXPECT_EQ(table.rows[1].histogram.count(), 2U);
  EXPECT_EQ(table.without_start, 1U);
  EXPECT_EQ(table.without_end, 1U);
}

TEST_F(Reduction, MatchesLatencyByArgument) {
  ask(ReductionKind::latency);
  query_.match = parse_item("arg0").value();
  Reducer reducer(query_);
  const auto at = [&](probe::Value id, std::int32_t pid, std::int32_t tid, std::uint64_t ns,
                      Role role) {
    OrderFire order;
    order.numbers[0] = std::move(id);
    order.fire.pid = pid;
    order.fire.tid = tid;
    order.fire.time_ns = ns;
    fire(reducer, order, role);
  };
  at(std::int64_t{7}, 1, 10, 100, Role::start);
  at(std::int64_t{8}, 1, 10, 200, Role::start);
  at(std::int64_t{7}, 2, 20, 300, Role::start);  // the same id in another process
  at(std::uint64_t{7}, 1, 11, 600, Role::end);   // ended by another thread, as another type
  at(std::int64_t{8}, 1, 12, 210, Role::end);
  at(probe::ValueError{"gone"}, 1, 12, 400, Role::end);
  at(probe::StringValue{"cut", true}, 1, 12, 500, Role::start);  // of what, is not known
  at(probe::StringValue{"cut", true}, 1, 12, 600, Role::end);
  const ReductionTable table = reducer.table();
  ASSERT_THAT(table.rows, SizeIs(1));
  EXPECT_EQ(table.rows[0].count, 2U);
  EXPECT_EQ(table.rows[0].sum, Number(std::int64_t{510}));
  EXPECT_EQ(table.without_start, 0U);
  EXPECT_EQ(table.unread, 3U);
}

TEST_F(Reduction, AStartIsNotThatOfALaterProcessWithItsNumber) {
  ask(ReductionKind::latency);
  Reducer reducer(query_);
  const auto at = [&](std::uint64_t process_start_ns, std::uint64_t ns, Role role) {
    OrderFire order;
    order.fire.process_start_ns = process_start_ns;
    order.fire.time_ns = ns;
    fire(reducer, order, role);
  };
  at(50, 100, Role::start);
  at(200, 300, Role::end);
  at(200, 400, Role::start);
  at(200, 410, Role::end);
  const ReductionTable table = reducer.table();
  ASSERT_THAT(table.rows, SizeIs(1));
  EXPECT_EQ(table.rows[0].sum, Number(std::int64_t{10}));
  EXPECT_EQ(table.without_start, 1U);
}

TEST_F(Reduction, PutsWhatIsBeyondTheLimitTogether) {
  ask(ReductionKind::count, "tenant");
  Reducer reducer(query_, 2);
  for (const char* tenant : {"a", "b", "c", "d", "a", "c"}) fire(reducer, of_tenant(tenant));
  const ReductionTable table = reducer.table();
  EXPECT_THAT(table.rows, SizeIs(2));
  EXPECT_EQ(table.others.count, 3U);

  ask(ReductionKind::latency);
  Reducer latencies(query_, 2, 1);
  for (int tid = 0; tid < 3; ++tid) {
    OrderFire order;
    order.fire.tid = tid;
    fire(latencies, order, Role::start);
  }
  EXPECT_EQ(latencies.table().without_end, 2U);
  // The oldest starts made room, as they do in the kernel.
  for (const int tid : {0, 2}) {
    OrderFire order;
    order.fire.tid = tid;
    fire(latencies, order, Role::end);
  }
  EXPECT_EQ(latencies.table().without_start, 1U);
  EXPECT_EQ(latencies.table().rows.at(0).count, 1U);
}

TEST_F(Reduction, RowsOfTheSameGroupAreOne) {
  ask(ReductionKind::histogram, "tenant", "id");
  Reducer here(query_), there(query_);
  const auto sell = [&](Reducer& reducer, const char* tenant, std::int64_t id) {
    OrderFire order = of_tenant(tenant);
    order.numbers[0] = id;
    fire(reducer, order);
  };
  sell(here, "acme", 3);
  sell(there, "acme", 5);
  sell(there, "bolt", 7);
  ReductionTable table = here.table();
  merge_rows(table, there.table().rows);
  ASSERT_THAT(table.rows, SizeIs(2));
  EXPECT_EQ(table.rows[0].count, 2U);
  EXPECT_EQ(table.rows[0].sum, Number(std::int64_t{8}));
  EXPECT_EQ(table.rows[0].least, Number(std::int64_t{3}));
  EXPECT_EQ(table.rows[0].greatest, Number(std::int64_t{5}));
  EXPECT_EQ(table.rows[0].histogram.count(), 2U);
}

TEST_F(Reduction, TablesOfOneQueryAddUpWithinTheLimit) {
  ask(ReductionKind::count, "tenant");
  Reducer first(query_), second(query_);
  for (const char* tenant : {"a", "b", "a"}) fire(first, of_tenant(tenant));
  for (const char* tenant : {"a", "c", "d"}) fire(second, of_tenant(tenant));
  ReductionTable table;
  merge(table, first.table(), 3);
  merge(table, second.table(), 3);
  EXPECT_EQ(table.by, first.table().by);
  ASSERT_THAT(table.rows, SizeIs(3));
  EXPECT_EQ(table.rows[0].count, 3U);
  EXPECT_EQ(table.others.count, 1U);
}

TEST(Pattern, TakesAnyNameAsItIsListed) {
  const std::pair<const char*, const char*> listed[] = {{"w", "arr[0]"},      {"w", "x*y"},
                                                        {"w", "a:b"},         {"w:v", "n"},
                                                        {"w", "back\\slash"}, {"w", "[!a]"}};
  for (const auto& [provider, name] : listed) {
    const probe::Probe probe{probe::Kind::sdt, provider, name, {}, {}};
    for (const std::string& text : {std::string(provider) + ":" + name, std::string(name)})
      EXPECT_TRUE(probe::Pattern(text).matches(probe)) << text;
    EXPECT_FALSE(probe::Pattern(std::string(provider) + ":" + name + "x").matches(probe)) << name;
  }
}

TEST(Pattern, TakesBothSpellingsOfADash) {
  for (const std::string name : {"query__start", "query-start"}) {
    probe::Probe probe;
    probe.provider = "shop";
    probe.name = name;
    for (const char* pattern : {"shop:query__start", "shop:query-start", "query-*", "query__*",
                                "*__start", "query-start", "quer*"})
      EXPECT_TRUE(probe::Pattern(pattern).matches(probe)) << pattern << " " << name;
    for (const char* pattern : {"shop:query_start", "shop:query", "till:query-start"})
      EXPECT_FALSE(probe::Pattern(pattern).matches(probe)) << pattern << " " << name;
  }
}

TEST_F(Reduction, TakesTheTwoProbesOfALatency) {
  ReductionQuery query;
  ASSERT_TRUE(parse_latency("a:start, a:end", query));
  EXPECT_EQ(query.start, "a:start");
  EXPECT_EQ(query.end, "a:end");
  EXPECT_EQ(query.kind, ReductionKind::latency);
  for (const char* wrong : {"", "a", "a,", ",a", "a,b,c", "a:b,a:b", "a:b__c, a:b-c"})
    EXPECT_FALSE(parse_latency(wrong, query)) << wrong;
}

}  // namespace
}  // namespace vitrine::query
