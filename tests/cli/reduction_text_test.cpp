// Tables, bars and NDJSON of reductions.
#include "cli/trace/reduction_text.hpp"

#include <gmock/gmock.h>

#include <numeric>

#include "cli/output/text.hpp"
#include "cli/trace/reduction.hpp"

namespace vitrine::cli {
namespace {

using query::Key;
using query::Number;
using query::ReductionKind;
using query::ReductionRow;
using query::ReductionTable;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const Style plain(false);

Key text(std::string bytes) {
  return probe::StringValue{std::move(bytes), false};
}

ReductionTable counts() {
  ReductionTable table;
  table.by = {"tenant"};
  for (const auto& [tenant, count] : {std::pair("acme", 40), std::pair("bolt", 10)}) {
    ReductionRow row;
    row.probe = "shop:order";
    row.keys = {text(tenant)};
    row.count = static_cast<std::uint64_t>(count);
    table.rows.push_back(row);
  }
  return table;
}

ReductionTable latencies() {
  ReductionTable table;
  table.kind = ReductionKind::latency;
  table.by = {"tenant"};
  ReductionRow row;
  row.probe = "shop:request_end";
  row.keys = {text("acme")};
  for (std::int64_t i = 1; i <= 1000; ++i) {
    const Number ns = i * 2000;
    row.histogram.add(ns);
    row.sum.add(ns);
  }
  row.count = 1000;
  row.least = Number(std::int64_t{2000});
  row.greatest = Number(std::int64_t{2'000'000});
  table.rows = {row};
  return table;
}

std::vector<std::size_t> widths(const std::string& lines) {
  std::vector<std::size_t> out;
  for (std::size_t from = 0; from < lines.size();) {
    const std::size_t end = lines.find('\n', from);
    out.push_back(width(lines.substr(from, end - from)));
    from = end + 1;
  }
  return out;
}

TEST(ReductionText, CountsByGroup) {
  EXPECT_EQ(reduction_text(counts(), plain, {}),
            "  TENANT  COUNT\n"
            "  acme       40  ████████████████████\n"
            "  bolt       10  █████\n");
  EXPECT_EQ(reduction_text(counts(), plain, {.utf8 = false}),
            "  TENANT  COUNT\n"
            "  acme       40  ####################\n"
            "  bolt       10  #####\n");
}

TEST(ReductionText, TellsProbesWhereThereAreSeveral) {
  ReductionTable table = counts();
  table.rows[1].probe = "shop:refund";
  EXPECT_THAT(reduction_text(table, plain, {}), HasSubstr("  shop:refund  bolt       10"));
}

TEST(ReductionText, ShowsSums) {
  ReductionTable table = counts();
  table.kind = ReductionKind::sum;
  table.value = "price";
  table.rows.resize(1);
  table.rows[0].sum = 100.0;
  table.rows[0].least = Number(0.5);
  EXPECT_EQ(reduction_text(table, plain, {}),
            "  TENANT  COUNT  SUM  AVG  MIN  MAX\n"
            "  acme       40  100  2.5  0.5    -\n");
}

TEST(ReductionText, ShowsLatenciesWithUnits) {
  const std::string shown = reduction_text(latencies(), plain, {});
  EXPECT_THAT(shown, HasSubstr("  TENANT  COUNT     AVG"));
  EXPECT_THAT(shown, HasSubstr("  acme     1000  1.00ms  "));
  EXPECT_THAT(shown, HasSubstr("2.00ms\n")) << "the greatest, exactly";
  EXPECT_THAT(shown, HasSubstr("µs –")) << "a single latency shows its spread";
  EXPECT_THAT(reduction_text(latencies(), plain, {.utf8 = false}), Not(HasSubstr("µ")));
}

TEST(ReductionText, FitsTheTerminal) {
  ReductionTable table = latencies();
  table.by.push_back("http.route");
  table.rows[0].keys.push_back(text("/" + std::string(200, 'x')));
  for (const std::size_t columns : {80U, 100U})
    EXPECT_THAT(widths(reduction_text(table, plain, {.columns = columns})),
                Each(testing::Le(columns)));
  EXPECT_THAT(reduction_text(table, plain, {}), HasSubstr("x…"));
  table.kind = ReductionKind::histogram;
  table.rows[0].keys.pop_back();
  EXPECT_THAT(widths(reduction_text(table, plain, {})), Each(testing::Le(80U)));
}

TEST(ReductionText, JsonMarksKeysOfWhichItHasAPart) {
  ReductionTable table = counts();
  table.rows[0].keys[0] = probe::StringValue{"acm", true};
  const auto objects = to_json(table);
  ASSERT_EQ(objects.size(), 2U);
  ASSERT_TRUE(objects[0].contains("truncated"));
  EXPECT_EQ(objects[0]["truncated"].dump(),
            R"([{"what":"by","detail":"tenant: rows differ in its first bytes alone"}])");
  EXPECT_FALSE(objects[1].contains("truncated"));
}

TEST(ReductionText, NeverLetsATargetSteerTheTerminal) {
  ReductionTable table = counts();
  table.rows[0].keys[0] = text("\x1b[2J");
  table.rows[1].keys[0] = probe::ValueError{"\x1b[2J"};
  table.rows[1].probe = "a\x1b[2J:b";
  for (const auto kind : {ReductionKind::count, ReductionKind::histogram}) {
    table.kind = kind;
    EXPECT_THAT(reduction_text(table, plain, {}), Not(HasSubstr("\x1b")));
  }
}

TEST(ReductionText, SaysWhatIsInNoRow) {
  ReductionTable table = counts();
  table.others.count = 7;
  table.unread = 1;
  table.without_start = 2;
  table.lost = 3;
  const std::string shown = reduction_text(table, plain, {.max_rows = 1});
  EXPECT_THAT(shown, HasSubstr("  (other)      7  "));
  EXPECT_THAT(shown, HasSubstr("  1 group not shown, each smaller\n"));
  EXPECT_THAT(shown, HasSubstr("  1 fire in no row"));
  EXPECT_THAT(shown, HasSubstr("  2 ends in no row"));
  EXPECT_THAT(shown, HasSubstr("  3 fires lost"));
  EXPECT_THAT(shown, Not(HasSubstr("bolt")));
  ReductionTable no_rows;
  no_rows.unread = 4;
  EXPECT_THAT(reduction_text(no_rows, plain, {}),
              StartsWith("  4 fires in no row: the aggregated value "));
  EXPECT_EQ(reduction_text({}, plain, {}), "  no probe fired\n");
  EXPECT_EQ(reduction_text({}, plain, {.continues = true}), "  no probe has fired yet\n");
}

TEST(ReductionText, SpellsKeys) {
  EXPECT_EQ(key_text({}), "-");
  EXPECT_EQ(key_text(text("")), "\"\"");
  EXPECT_EQ(key_text(text("a b")), "\"a b\"");
  EXPECT_EQ(key_text(probe::PointerValue{0x10}), "0x10");
  EXPECT_EQ(key_text(probe::EnumeratorValue{1, "RED"}), "RED");
  EXPECT_EQ(key_text(probe::EnumeratorValue{1, "RED"}, query::Format::decimal), "1");
  EXPECT_EQ(key_text(std::int64_t{255}, query::Format::hex), "0xff");
  EXPECT_EQ(key_text(true), "true");
  EXPECT_EQ(key_text(2.5), "2.5");
}

TEST(ReductionText, AValueThatReadsLikeAMarkIsInQuotes) {
  const auto cell = [](const Key& key) { return key_text(key, query::Format::plain, 8); };
  for (const char* mark : {"-", "?", "(none)", ""})
    EXPECT_EQ(cell(text(mark)), '"' + std::string(mark) + '"');
  EXPECT_EQ(cell(text("\"-\"")), "\"\\\"-\\\"\"");
  EXPECT_EQ(cell({}), "-");
  EXPECT_EQ(cell(text("-1")), "-1");
}

TEST(HistogramText, CountsEveryValueInOneLine) {
  query::Histogram wide, narrow, negative;
  for (int power = 0; power < 64; ++power) wide.add(std::uint64_t{1} << power);
  for (std::int64_t i = 100; i < 110; ++i) narrow.add(i);
  for (std::int64_t i = -1000; i < 1000; ++i) negative.add(i);
  const auto next = [](const Number& number) {
    query::Sum sum(number);
    sum.add(std::int64_t{1});
    return sum.number().value();
  };
  for (const query::Histogram* histogram : {&wide, &narrow, &negative}) {
    const auto lines = histogram_lines(*histogram);
    const auto sum = std::accumulate(
        lines.begin(), lines.end(), std::uint64_t{0},
        [](std::uint64_t so_far, const HistogramLine& line) { return so_far + line.count; });
    EXPECT_EQ(sum, histogram->count());
    EXPECT_GT(lines.front().count, 0U);
    EXPECT_GT(lines.back().count, 0U);
    for (std::size_t i = 1; i < lines.size(); ++i)
      EXPECT_TRUE(query::compare(next(lines[i - 1].high), lines[i].low) == 0) << "no gap";
  }
  EXPECT_EQ(histogram_lines(wide).size(), 64U) << "a power of two each";
  EXPECT_EQ(histogram_lines(narrow).front().low, Number(std::int64_t{96}));
  EXPECT_LE(histogram_lines(negative).size(), 22U);
  EXPECT_TRUE(histogram_lines({}).empty());
}

TEST(HistogramText, DrawsBars) {
  query::Histogram histogram;
  for (int i = 0; i < 40; ++i) histogram.add(std::int64_t{1});
  histogram.add(std::int64_t{3});
  const auto spell = [](const Number& number) { return number_text(number); };
  EXPECT_EQ(histogram_text(histogram, spell, plain, {.utf8 = true, .columns = 40}),
            "    1  █████████████████████████████  40\n"
            "    2                                  0\n"
            "    3  ▊                               1\n");
  histogram.add(std::int64_t{20});
  EXPECT_THAT(histogram_text(histogram, spell, plain, {.utf8 = false, .columns = 40}),
              HasSubstr("\n   ...\n"))
      << "a gap is one line";
  EXPECT_EQ(bar(0, 8, true), "");
  EXPECT_EQ(bar(1e-9, 8, true), "▏") << "something is never nothing";
  EXPECT_EQ(bar(1, 8, false), "########");
}

TEST(Units, AreThreeDigitsAndAUnit) {
  for (const auto& [ns, said] :
       std::initializer_list<std::pair<double, const char*>>{{0, "0ns"},
                                                             {999, "999ns"},
                                                             {999.6, "1.00µs"},
                                                             {1234, "1.23µs"},
                                                             {45'600, "45.6µs"},
                                                             {999'400, "999µs"},
                                                             {999'600, "1.00ms"},
                                                             {1e9, "1.00s"},
                                                             {99.9e9, "99.9s"},
                                                             {125e9, "2m05s"},
                                                             {-1234, "-1.23µs"}})
    EXPECT_EQ(duration_text(ns, true), said);
  EXPECT_EQ(duration_text(1234, false), "1.23us");
}

TEST(ReductionJson, HasAnObjectARow) {
  ReductionTable table = latencies();
  table.without_end = 4;
  table.cut_texts = 5;
  table.without_text = 6;
  table.rows[0].keys[0] = text("\xff");
  const auto objects = to_json(table);
  ASSERT_EQ(objects.size(), 2U);
  const Json& row = objects[0];
  EXPECT_EQ(row["probe"], "shop:request_end");
  EXPECT_EQ(row["reduction"], "latency");
  EXPECT_EQ(row["by"]["tenant"]["base64"], "/w==");
  EXPECT_EQ(row["count"], 1000);
  EXPECT_EQ(row["sum"], 1'001'000'000);
  EXPECT_EQ(row["max"], 2'000'000);
  EXPECT_LE(row["p99"], row["max"]);
  std::uint64_t sum = 0;
  for (const Json& bucket : row["buckets"]) {
    EXPECT_LE(bucket[0], bucket[1]);
    sum += bucket[2].get<std::uint64_t>();
  }
  EXPECT_EQ(sum, 1000U);
  EXPECT_EQ(objects[1], Json({{"without_end", 4}, {"cut_texts", 5}, {"without_text", 6}}));
  const std::string shown = reduction_text(table, plain, {});
  EXPECT_THAT(shown, HasSubstr("  5 texts of groups cut: "));
  EXPECT_THAT(shown, HasSubstr("  6 fires in groups printed ?: "));
}

TEST(ReductionJson, KeepsNumbersExact) {
  ReductionTable table = counts();
  table.kind = ReductionKind::sum;
  table.value = "hex(arg0)";
  table.rows[0].sum = std::uint64_t{1} << 60;
  table.rows[0].keys[0] = Key();
  table.others.count = 2;
  const auto objects = to_json(table);
  ASSERT_EQ(objects.size(), 3U);
  EXPECT_EQ(objects[0]["sum"], "1152921504606846976");
  EXPECT_EQ(objects[0]["min"], nullptr);
  EXPECT_EQ(objects[0]["by"]["tenant"], nullptr);
  EXPECT_EQ(objects[0]["value"], "hex(arg0)");
  EXPECT_FALSE(objects[0].contains("buckets"));
  EXPECT_EQ(objects[2]["others"], true);
}

}  // namespace
}  // namespace vitrine::cli
