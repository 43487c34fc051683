// custom-labels v0 and v1, decoded from literal byte tables.
#include <gmock/gmock.h>

#include "format/label_fixture.hpp"
#include "format/label_matchers.hpp"
#include "format/unreadable.hpp"

namespace vitrine::format {
namespace {

using namespace vitrine::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(CustomLabelsV1, ReadsLabelsInTheOrderOfTheArray) {
  auto decoded = decode_v1(LabelImage().label("tenant", "acme").label("route", "/checkout"));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_THAT(decoded->set.labels,
              ElementsAre(Label{"tenant", "acme"}, Label{"route", "/checkout"}));
  EXPECT_THAT(decoded->set.truncated, IsEmpty());
  EXPECT_THAT(decoded->set.defects, IsEmpty());
  EXPECT_FALSE(decoded->set.trace);
  EXPECT_FALSE(decoded->needs_key_map_refresh);
}

TEST(CustomLabelsV1, RawIdsOfATraceAreShownAsText) {
  const std::string raw("\x00\x01\x02\x03\x04\x05\x06\x07\x80\x90\xa0\xb0\xc0\xd0\xe0\xff", 16);
  auto decoded = decode_v1(LabelImage()
                               .label("trace_id", raw)
                               .label("span_id", raw.substr(8))
                               .label("tenant", raw.substr(8)));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_THAT(decoded->set.labels,
              ElementsAre(Label{"trace_id", "00010203040506078090a0b0c0d0e0ff"},
                          Label{"span_id", "8090a0b0c0d0e0ff"}, Label{"tenant", raw.substr(8)}));
}

TEST(CustomLabelsV1, OtherValuesOfIdsStayAsTheyAre) {
  // Text of a whole id, of 64 bits, and what is no id of either form.
  for (const char* text : {"0123456789abcdef0123456789abcdef", "0123456789ABCDEF", "none", ""}) {
    auto decoded = decode_v1(LabelImage().label("trace_id", text).label("span_id", "01234567"));
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_THAT(decoded->set.labels,
                ElementsAre(Label{"trace_id", text}, Label{"span_id", "01234567"}));
  }
}

TEST(CustomLabelsV1, OfACopyWholeLabelsCountAlone) {
  LabelImage image;
  image.label("tenant", "acme");
  const auto [length, key] = image.string("body");
  image.entry(length, key, 5000, 0x50'0000).label("body", "outdated").label("route", "/pay");
  DecodeContext copy;
  copy.is_copy = true;
  const auto decoded = decode_v1(image, copy);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"tenant", "acme"}, Label{"route", "/pay"}));
  EXPECT_TRUE(has_cut(decoded->set, "labels"));
}

TEST(CustomLabelsV1, WhatFollowsAKeyThatACopyLacksMayBeOutdated) {
  LabelImage image;
  image.label("tenant", "acme");
  const auto [length, value] = image.string("/pay");
  image.entry(5, 0x50'0000, length, value).label("route", "outdated");
  DecodeContext copy;
  copy.is_copy = true;
  const auto decoded = decode_v1(image, copy);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"tenant", "acme"}));
  EXPECT_TRUE(has_cut(decoded->set, "labels"));
}

TEST(CustomLabelsV1, NullSlotIsAnEmptySet) {
  BufferMemory memory;
  memory.place(slot_at, Bytes().u64(0));
  auto decoded = decode(Format::custom_labels_v1, memory, slot_at, {});
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->set, LabelSet{});
}

TEST(CustomLabelsV1, CountZeroIsAnEmptySetWhateverStorageIs) {
  BufferMemory memory;
  memory.place(slot_at, Bytes().u64(set_at));
  memory.place(set_at, Bytes().u64(0xdead).u64(0).u64(7));
  auto decoded = decode(Format::custom_labels_v1, memory, slot_at, {});
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->set, LabelSet{});
}

TEST(CustomLabelsV1, NeverReadsTheCapacity) {
  BufferMemory memory;
  LabelImage().label("k", "v").build(memory);
  memory.place(set_at, Bytes().u64(array_at).u64(1));  // 16 bytes, then nothing is mapped
  auto decoded = decode(Format::custom_labels_v1, memory, slot_at, {});
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"k", "v"}));
}

TEST(CustomLabelsV0, SlotIsTheSet) {
  BufferMemory memory;
  memory.place(slot_at, Bytes().u64(array_at).u64(1));
  memory.place(array_at, Bytes().string(3, strings_at).string(2, strings_at + 3));
  memory.place(strings_at, bytes_of("keyva"));
  auto decoded = decode(Format::custom_labels_v0, memory, slot_at, {});
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"key", "va"}));
}

TEST(CustomLabelsV0, ZeroedSlotIsAnEmptySet) {
  BufferMemory memory;
  memory.place(slot_at, Bytes().u64(0).u64(0));
  auto decoded = decode(Format::custom_labels_v0, memory, slot_at, {});
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->set, LabelSet{});
}

TEST(CustomLabels, NullKeyIsSkippedSilently) {
  auto decoded = decode_v1(LabelImage().label("a", "1").entry(5, 0, 5, strings_at).label("b", "2"));
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"a", "1"}, Label{"b", "2"}));
  EXPECT_THAT(decoded->set.defects, IsEmpty());
}

TEST(CustomLabels, NullValueIsADefectAndSkipped) {
  LabelImage image;
  image.label("a", "1");
  const auto [length, key] = image.string("none");
  auto decoded = decode_v1(image.entry(length, key, 3, 0).label("b", "2"));
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"a", "1"}, Label{"b", "2"}));
  EXPECT_THAT(decoded->set.defects, ElementsAre(defect(SetRule::value_present, "label 1")));
}

TEST(CustomLabels, ANullValueHidesLaterOnesOfItsKey) {
  LabelImage image;
  const auto [length, key] = image.string("k");
  image.entry(length, key, 3, 0).label("other", "x").label("k", "second");
  auto decoded = decode_v1(image);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"other", "x"}));
  EXPECT_THAT(decoded->set.defects, ElementsAre(defect(SetRule::value_present, "label 0")));
  EXPECT_EQ(decoded->set.repeated, 1U);
}

TEST(CustomLabels, ANullValueBehindALabelOfItsKeyCountsForNothing) {
  LabelImage image;
  image.label("k", "first");
  const auto [length, key] = image.string("k");
  image.entry(length, key, 3, 0);
  auto decoded = decode_v1(image);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"k", "first"}));
  EXPECT_THAT(decoded->set.defects, IsEmpty());
}

TEST(CustomLabels, ALengthBeyondAllMemoryIsNotALimitsCut) {
  for (const std::uint64_t length : {~0ULL, 1ULL << 57, 1ULL << 40}) {
    LabelImage image;
    const auto [key_length, key] = image.string("k");
    image.entry(key_length, key, length, image.string(std::string(32, 'v')).second);
    DecodeContext context;
    context.limits.value_bytes = 16;
    auto decoded = decode_v1(image, context);
    ASSERT_TRUE(decoded);
    EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"k", std::string(16, 'v')}));
    ASSERT_THAT(decoded->set.truncated, SizeIs(1));
    EXPECT_EQ(is_unreadable(decoded->set.truncated.front()), length >= 1ULL << 57) << length;
  }
}

TEST(CustomLabels, FirstOfEqualKeysWins) {
  auto decoded = decode_v1(
      LabelImage().label("k", "first").label("other", "x").label("k", "second").label("k", ""));
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"k", "first"}, Label{"other", "x"}));
  EXPECT_THAT(decoded->set.defects, IsEmpty()) << "duplicates are normal transient states";
}

TEST(CustomLabels, FirstWinsAmongManyKeysToo) {
  LabelImage image;
  for (int round = 0; round < 2; ++round)
    for (int i = 0; i < 100; ++i) image.label("key" + std::to_string(i), std::to_string(round));
  auto decoded = decode_v1(image);
  ASSERT_TRUE(decoded);
  ASSERT_THAT(decoded->set.labels, SizeIs(100));
  for (const Label& label : decoded->set.labels) EXPECT_EQ(label.value, "0") << label.key;
}

TEST(CustomLabels, EmptyStringsAreValidAndTheirPointersNeverFollowed) {
  LabelImage image;
  image.entry(0, 0xdead'beef'0000, 0, 1).label("k", "v");
  auto decoded = decode_v1(image);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"", ""}, Label{"k", "v"}));
  EXPECT_THAT(decoded->set.truncated, IsEmpty());
}

TEST(CustomLabels, KeysAndValuesAreAnyBytes) {
  const std::string key("\0k\n\x1b\xff", 5), value("\xf0\x9f\x92", 3);
  auto decoded = decode_v1(LabelImage().label(key, value));
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{key, value}));
}

TEST(CustomLabels, LabelLimitKeepsTheFirstAndSaysSo) {
  DecodeContext context;
  context.limits.labels_per_set = 2;
  auto decoded = decode_v1(
      LabelImage().label("a", "1").label("b", "2").label("a", "3").label("c", "4"), context);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"a", "1"}, Label{"b", "2"}));
  EXPECT_THAT(decoded->set.truncated, ElementsAre(Truncation{"labels", "kept 2 of 4 entries"}));
}

TEST(CustomLabels, ExactlyTheLimitIsNotTruncated) {
  DecodeContext context;
  context.limits.labels_per_set = 2;
  auto decoded = decode_v1(LabelImage().label("a", "1").label("b", "2").label("a", "3"), context);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, SizeIs(2));
  EXPECT_THAT(decoded->set.truncated, IsEmpty());
}

TEST(CustomLabels, LongKeysAndValuesAreCutAndFlagged) {
  DecodeContext context;
  context.limits.key_bytes = 4;
  context.limits.value_bytes = 3;
  auto decoded = decode_v1(LabelImage().label("tenant", "acme"), context);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"tena", "acm"}));
  EXPECT_THAT(decoded->set.truncated,
              ElementsAre(Truncation{"key", "label 0: kept 4 of 6 bytes"},
                          Truncation{"value", "label 0: kept 3 of 4 bytes"}));
}

TEST(CustomLabels, TextIsCutBetweenCharacters) {
  const auto cut = [](const std::string& value, std::size_t limit) {
    DecodeContext context;
    context.limits.value_bytes = limit;
    auto decoded = decode_v1(LabelImage().label("k", value), context);
    return decoded && decoded->set.labels.size() == 1 ? decoded->set.labels.front().value
                                                      : std::string("no label");
  };
  const std::string text = "x\u00e9\u20ac\U0001f600";  // characters of one to four bytes
  const std::size_t ends[] = {1, 1, 3, 3, 3, 6, 6, 6, 6, 10};
  for (std::size_t limit = 1; limit <= text.size(); ++limit)
    EXPECT_EQ(cut(text, limit), text.substr(0, ends[limit - 1])) << limit;
  EXPECT_EQ(cut("\u00e9", 1), "");
  EXPECT_EQ(cut("\xff\xc3\xa9", 2), "\xff\xc3");  // not text: as many bytes as fit
  EXPECT_EQ(cut("a\xff\xff", 2), "a\xff");

  DecodeContext context;
  context.limits.value_bytes = 2;
  auto decoded = decode_v1(LabelImage().label("k", text), context);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.truncated,
              ElementsAre(Truncation{"value", "label 0: kept 1 of 10 bytes"}));
}

TEST(CustomLabels, ThreadBudgetStopsAndSaysSo) {
  DecodeContext context;
  context.limits.bytes_per_thread = 100;  // an entry counts 32 bytes and its strings
  auto decoded = decode_v1(LabelImage()
                               .label("a", std::string(20, 'x'))
                               .label("b", "y")
                               .label("c", std::string(30, 'z')),
                           context);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, SizeIs(testing::Lt(3u)));
  EXPECT_TRUE(has_cut(decoded->set, "bytes"));
}

TEST(CustomLabels, SnapshotBudgetIsSharedByItsThreads) {
  std::size_t left = 2 * (32 + 10) + 10;
  DecodeContext context;
  context.bytes_left = &left;
  const auto image = LabelImage().label("k", "123456789");
  EXPECT_THAT(decode_v1(image, context)->set.labels, SizeIs(1));
  EXPECT_THAT(decode_v1(image, context)->set.labels, SizeIs(1));
  auto third = decode_v1(image, context);
  ASSERT_TRUE(third);
  EXPECT_THAT(third->set.labels, IsEmpty());
  EXPECT_TRUE(has_cut(third->set, "bytes"));
}

TEST(CustomLabels, PointerTagsAreRemoved) {
  BufferMemory memory;
  LabelImage image;
  const std::uint64_t lam = 0x15ULL << 57, tbi = 0xb4ULL << 56;
  for (const auto& [tag, mask] :
       {std::pair{lam, ~(Address{0x3f} << 57)}, {tbi, ~(Address{0xff} << 56)}}) {
    memory.place(slot_at, Bytes().u64(set_at | tag));
    memory.place(set_at, Bytes().u64(array_at | tag).u64(1));
    memory.place(array_at, Bytes().string(1, strings_at | tag).string(1, (strings_at + 1) | tag));
    memory.place(strings_at, bytes_of("kv"));
    DecodeContext context;
    context.address_mask = mask;
    auto decoded = decode(Format::custom_labels_v1, memory, slot_at, context);
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"k", "v"}));
  }
}

TEST(CustomLabels, ErrorsNameWhatAndWhere) {
  BufferMemory memory;
  auto no_slot = decode(Format::custom_labels_v1, memory, slot_at, {});
  ASSERT_FALSE(no_slot);
  EXPECT_THAT(no_slot.error().message, HasSubstr("slot"));
  EXPECT_THAT(no_slot.error().message, HasSubstr("0x100000"));

  memory.place(slot_at, Bytes().u64(set_at));
  auto no_set = decode(Format::custom_labels_v1, memory, slot_at, {});
  ASSERT_FALSE(no_set);
  EXPECT_EQ(no_set.error().code, ErrorCode::malformed);
  EXPECT_THAT(no_set.error().message, HasSubstr("0x200000"));

  memory.place(set_at, Bytes().u64(array_at).u64(3));
  auto no_array = decode(Format::custom_labels_v1, memory, slot_at, {});
  ASSERT_FALSE(no_array);
  EXPECT_THAT(no_array.error().message, HasSubstr("0x300000"));
}

TEST(CustomLabels, DecodeRecordTakesThePointerAlreadyRead) {
  BufferMemory memory;
  LabelImage().label("k", "v").build(memory);
  auto decoded = decode_record(Format::custom_labels_v1, memory, set_at, {});
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"k", "v"}));
}

}  // namespace
}  // namespace vitrine::format
