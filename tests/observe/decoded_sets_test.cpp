// Decoded label sets, and those with hidden values, are kept in bounded memory.
#include "observe/events/decoded_sets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "observe/trace/fire_view.hpp"

namespace vitrine::observe {
namespace {

format::LabelSet set_of(const std::string& value) {
  format::LabelSet set;
  set.labels.push_back({"key", value});
  return set;
}

TEST(DecodedSets, AreFoundByWhatIdentifiesThem) {
  DecodedSets sets;
  sets.keep({7, 1}, set_of("one"));
  sets.keep({8, 1}, fail(ErrorCode::failed, "absent"));
  EXPECT_EQ(sets.keep({{7, 1}, {8, 2}}, {set_of("both"), {}, 3}).id, 3U);
  EXPECT_EQ(sets.find(DecodedSets::Key{7, 1})->value().labels[0].value, "one");
  EXPECT_FALSE(*sets.find(DecodedSets::Key{8, 1}));
  EXPECT_EQ(sets.find(DecodedSets::Key{7, 2}), nullptr);
  EXPECT_EQ(sets.find({{7, 1}, {8, 2}})->set.labels[0].value, "both");
  EXPECT_EQ(sets.find({{8, 2}, {7, 1}}), nullptr);
  sets.clear();
  EXPECT_EQ(sets.find(DecodedSets::Key{7, 1}), nullptr);
  EXPECT_EQ(sets.bytes(), 0U);
}

using testing::ElementsAre;

const std::string trace_text = "0102030405060708090a0b0c0d0e0f10", span_text = "1112131415161718";

format::LabelSet with_ids(const std::string& trace_id, const std::string& span_id) {
  format::LabelSet set;
  set.labels = {{"trace_id", trace_id}, {"span_id", span_id}};
  return set;
}

DisplayedLabels displayed_of(const std::vector<format::LabelSet>& sets) {
  DisplayedLabels displayed;
  for (const format::LabelSet& set : sets) add_to(displayed, set);
  return displayed;
}

TEST(DisplayedLabels, IdsInLabelsAreTheTraceContext) {
  const format::LabelSet set = displayed_of({with_ids(trace_text, span_text)}).set;
  ASSERT_TRUE(set.trace);
  EXPECT_EQ(hex_text(set.trace->trace_id), trace_text);
  EXPECT_EQ(hex_text(set.trace->span_id), span_text);
  EXPECT_TRUE(set.labels.empty());
}

TEST(DisplayedLabels, MalformedIdsAreNone) {
  std::string malformed = trace_text;
  malformed.back() = 'x';
  const format::LabelSet set = displayed_of({with_ids(malformed, span_text)}).set;
  EXPECT_THAT(set.labels, ElementsAre(format::Label{"trace_id", malformed}));
  ASSERT_TRUE(set.trace);
  EXPECT_FALSE(is_id(set.trace->trace_id));
  EXPECT_FALSE(set.trace->is_valid());
}

TEST(DisplayedLabels, ZerosAreNoIds) {
  const format::LabelSet set =
      displayed_of({with_ids(std::string(32, '0'), std::string(16, '0'))}).set;
  EXPECT_FALSE(set.trace);
  EXPECT_TRUE(set.labels.empty());
}

TEST(DisplayedLabels, ASpanGoesBeforeATraceAlone) {
  format::LabelSet record;
  record.trace.emplace();
  record.trace->trace_id[0] = 1;
  record.trace->trace_flags = 1;
  for (const auto& sets : {std::vector{record, with_ids(trace_text, span_text)},
                           std::vector{with_ids(trace_text, span_text), record}}) {
    const format::LabelSet set = displayed_of(sets).set;
    ASSERT_TRUE(set.trace);
    EXPECT_EQ(hex_text(set.trace->trace_id), trace_text);
  }
}

TEST(DecodedSets, TakeBoundedMemoryHoweverManyCombinationsThereAre) {
  constexpr std::uint64_t combinations = 4096;
  const std::string large(64 * 1024, 'x');
  DecodedSets sets;
  std::uint64_t found = 0;
  for (std::uint64_t i = 0; i < combinations; ++i) {
    sets.keep({{i / 64, 0}, {i % 64, 1}}, {set_of(large), {}, i});
    sets.keep({i, 2}, set_of(large));
    ASSERT_LE(sets.bytes(), DecodedSets::max_bytes);
    ASSERT_NE(sets.find(DecodedSets::Key{i, 2}), nullptr) << "the last one is there";
  }
  for (std::uint64_t i = 0; i < combinations; ++i)
    found += sets.find({{i / 64, 0}, {i % 64, 1}}) != nullptr ? 1 : 0;
  EXPECT_GT(found, 0U);
  EXPECT_LE(found * large.size(), DecodedSets::max_bytes);
}

TEST(RedactedLabels, TakeBoundedMemoryHoweverLargeTheSetsAre) {
  const std::string large(64 * 1024, 'x');
  const Redaction redaction;
  RedactedLabels redacted;
  for (std::uint64_t id = 1; id <= 2 * RedactedLabels::max_bytes / large.size(); ++id) {
    const DisplayedLabels labels{set_of(large + std::to_string(id)), {}, id};
    const DisplayedLabels& made = redacted.of(labels, redaction);
    ASSERT_EQ(made.set.labels[0].value, labels.set.labels[0].value);
    ASSERT_EQ(&redacted.of(labels, redaction), &made) << "it is made once";
    ASSERT_GT(redacted.bytes(), large.size());
    ASSERT_LE(redacted.bytes(), RedactedLabels::max_bytes);
  }
}

}  // namespace
}  // namespace vitrine::observe
