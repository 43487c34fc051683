// docs/formats/custom-labels.md, "What a reader must check", on memory of our making. Nothing here
// may crash, hang or grow without bound; what can still be told is told.
#include <gmock/gmock.h>

#include <chrono>

#include "base/memory.hpp"
#include "format/label_fixture.hpp"
#include "format/label_matchers.hpp"

namespace vitrine::format {
namespace {

using namespace vitrine::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Format pointer_formats[] = {
    Format::custom_labels_v1, Format::v2_draft_a,         Format::v2_draft_b, Format::v2_draft_c,
    Format::v2_draft_d,       Format::otel_thread_ctx_v1, Format::elastic_v1};

constexpr std::uint64_t huge = ~std::uint64_t{0};

// Item 1.

TEST(HostileSlot, WildPointersAreErrorsThatNameThem) {
  for (const Format format : pointer_formats)
    for (const std::uint64_t pointer :
         {std::uint64_t{1}, std::uint64_t{0xffff}, std::uint64_t{0xffff'8000'0000'0000},
          std::uint64_t{0x8000'0000'0000'0000}, std::uint64_t{0x0000'8000'0000'0000}, huge,
          huge - 23, std::uint64_t{0x1234'5678'9abd}}) {
      BufferMemory memory;
      memory.place(slot_at, Bytes().u64(pointer));
      auto decoded = decode(format, memory, slot_at, {});
      ASSERT_FALSE(decoded) << name(format) << hex(pointer);
      EXPECT_EQ(decoded.error().code, ErrorCode::malformed);
      EXPECT_THAT(decoded.error().message, HasSubstr(hex(pointer)));
    }
}

TEST(HostileSlot, RecordAtTheEndOfAPageIsAnError) {
  for (const Format format : pointer_formats) {
    BufferMemory memory;
    memory.place(slot_at, Bytes().u64(0x20'0fff));
    memory.place(0x20'0fff, Bytes().u8(1));
    EXPECT_FALSE(decode(format, memory, slot_at, {})) << name(format);
  }
}

TEST(HostileSlot, UnalignedSetIsReadAllTheSame) {
  BufferMemory memory;
  LabelImage().label("k", "v").build(memory);
  memory.place(slot_at, Bytes().u64(0x28'0003));
  memory.place(0x28'0003, Bytes().u64(array_at).u64(1).u64(1));
  auto decoded = decode(Format::custom_labels_v1, memory, slot_at, {});
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"k", "v"}));
}

// Item 2.

TEST(HostileCount, IsNeverBelieved) {
  for (const std::uint64_t count : {huge, std::uint64_t{1} << 59, (std::uint64_t{1} << 59) + 1,
                                    std::uint64_t{1001}, std::uint64_t{4097}}) {
    auto decoded = decode_v1(LabelImage().label("a", "1").label("b", "2"), {}, count);
    ASSERT_TRUE(decoded) << count;
    EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"a", "1"}, Label{"b", "2"})) << count;
    EXPECT_TRUE(has_cut(decoded->set, "labels")) << count;
  }
}

TEST(HostileCount, ReallyManyEntriesAreCutAtTheCapAndFlagged) {
  LabelImage image;
  for (int i = 0; i < 5000; ++i) image.label("key" + std::to_string(i), "v");
  auto decoded = decode_v1(image);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, SizeIs(256));
  EXPECT_TRUE(has_cut(decoded->set, "labels"));

  DecodeContext context;
  context.limits.labels_per_set = 1'000'000;
  context.limits.bytes_per_thread = huge;
  decoded = decode_v1(image, context);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, SizeIs(4096)) << "the hard cap";
  EXPECT_TRUE(has_cut(decoded->set, "labels"));
}

TEST(HostileCount, ArrayThatWrapsTheAddressSpace) {
  BufferMemory memory;
  memory.place(slot_at, Bytes().u64(set_at));
  for (const std::uint64_t storage : {huge - 63, huge - 31, huge - 7, huge}) {
    memory.place(set_at, Bytes().u64(storage).u64(1000).u64(0));
    EXPECT_FALSE(decode(Format::custom_labels_v1, memory, slot_at, {})) << hex(storage);
  }
  // Two entries lie below the end, and the rest would be at address 0.
  memory.place(huge - 63, Bytes().fill(64, 0));
  memory.place(0, Bytes().fill(4096, 0x41));
  memory.place(set_at, Bytes().u64(huge - 63).u64(1000).u64(0));
  auto decoded = decode(Format::custom_labels_v1, memory, slot_at, {});
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, IsEmpty());
  EXPECT_TRUE(has_cut(decoded->set, "labels"));
}

// Item 3.

TEST(HostileLength, IsNeverBelieved) {
  for (const std::uint64_t length : {huge, std::uint64_t{1} << 32, std::uint64_t{1} << 31}) {
    LabelImage image;
    const auto [key_length, key] = image.string("key");
    image.entry(key_length, key, length, key).entry(length, key, 3, key);
    auto decoded = decode_v1(image);
    ASSERT_TRUE(decoded);
    EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"key", "key"})) << length;
    EXPECT_TRUE(has_cut(decoded->set, "value")) << length;
    EXPECT_TRUE(has_cut(decoded->set, "key")) << length;
  }
}

TEST(HostileLength, StringThatWrapsTheAddressSpace) {
  LabelImage image;
  const auto [length, key] = image.string("k");
  image.entry(length, key, 4096, huge - 3);
  BufferMemory memory;
  image.build(memory);
  memory.place(huge - 3, bytes_of("tail"));
  memory.place(0, bytes_of("head"));
  WindowMemory windows(memory, 1000);
  for (Memory* view : {static_cast<Memory*>(&memory), static_cast<Memory*>(&windows)}) {
    auto decoded = decode(Format::custom_labels_v1, *view, slot_at, {});
    ASSERT_TRUE(decoded);
    EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"k", "tail"}));
    EXPECT_TRUE(has_cut(decoded->set, "value"));
  }
}

TEST(HostileLength, StringAcrossAnUnmappedPageGivesItsMappedPrefix) {
  LabelImage image;
  const auto [length, key] = image.string("k");
  image.entry(length, key, 100, 0x50'0ffc).entry(100, 0x50'0ffe, length, key);
  BufferMemory memory;
  image.build(memory);
  memory.place(0x50'0ffc, bytes_of("edge"));
  auto decoded = decode(Format::custom_labels_v1, memory, slot_at, {});
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"k", "edge"}, Label{"ge", "k"}));
  EXPECT_THAT(
      decoded->set.truncated,
      ElementsAre(Truncation{"key", "label 1: kept 2 of 100 bytes, the rest is not readable"},
                  Truncation{"value", "label 0: kept 4 of 100 bytes, the rest is not readable"}));
}

TEST(HostileLength, UnreadableStringsLeaveTheRest) {
  LabelImage image;
  const auto [length, key] = image.string("k");
  image
      .entry(5, 0xdead'0000'0000, length, key)  // key nowhere
      .entry(length, key, 5, 0xdead'0000'0000)  // value nowhere
      .entry(5, 0x10, length, key)              // key below any mapping
      .label("after", "all");
  auto decoded = decode_v1(image);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"k", ""}, Label{"after", "all"}));
  EXPECT_THAT(decoded->set.defects, ElementsAre(defect(SetRule::key_readable, "label 0"),
                                                defect(SetRule::key_readable, "label 2")));
  EXPECT_TRUE(has_cut(decoded->set, "value"));
}

// Item 4.

TEST(HostileEntries, AllKeysNull) {
  LabelImage image;
  for (int i = 0; i < 5000; ++i) image.entry(5, 0, 5, strings_at);
  auto decoded = decode_v1(image);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, IsEmpty());
  EXPECT_TRUE(has_cut(decoded->set, "labels")) << "not all entries were looked at";
}

TEST(HostileEntries, AMillionDuplicatesAreDoneInNoTime) {
  LabelImage image;
  const auto [length, key] = image.string("same");
  for (int i = 0; i < 1'000'000; ++i) image.entry(length, key, length, key);
  BufferMemory memory;
  image.build(memory);
  const auto begin = std::chrono::steady_clock::now();
  auto decoded = decode(Format::custom_labels_v1, memory, slot_at, {});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"same", "same"}));
  EXPECT_FALSE(decoded->set.truncated.empty());
}

TEST(HostileEntries, ThousandsOfDefectsAreCountedNotListed) {
  LabelImage image;
  for (int i = 0; i < 4000; ++i) {
    const auto [length, key] = image.string(std::to_string(i));
    image.entry(length, key, 5, 0);
  }
  DecodeContext context;
  context.limits.bytes_per_thread = 4 << 20;
  auto decoded = decode_v1(image.label("k", "v"), context);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"k", "v"}));
  EXPECT_THAT(decoded->set.defects, SizeIs(16));
  EXPECT_EQ(decoded->set.defects_left_out, 3984U);
}

TEST(HostileEntries, BinaryKeysAndCutMultibyteCharacters) {
  DecodeContext context;
  context.limits.value_bytes = 6;
  auto decoded = decode_v1(LabelImage()
                               .label("", "empty key")
                               .label(std::string("nul\0nul", 7), "a")
                               .label("line\nbreak\x1b[31m", "b")
                               .label("\xff\xfe", "c")
                               .label("cut", "abcd\xf0\x9f\x98\x80"),
                           context);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(
      decoded->set.labels,
      ElementsAre(Label{"", "empty "}, Label{std::string("nul\0nul", 7), "a"},
                  Label{"line\nbreak\x1b[31m", "b"}, Label{"\xff\xfe", "c"}, Label{"cut", "abcd"}))
      << "bytes are bytes here: whoever prints them escapes them; text is cut between characters";
}

// Item 5.

TEST(HostileSet, InsideItsOwnStrings) {
  // A set whose array and strings are the set itself.
  BufferMemory memory;
  memory.place(slot_at, Bytes().u64(set_at));
  memory.place(set_at, Bytes().u64(set_at).u64(2).string(48, set_at).string(16, set_at).u64(0));
  auto decoded = decode(Format::custom_labels_v1, memory, slot_at, {});
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_THAT(decoded->set.labels, SizeIs(testing::Le(2u)));
}

TEST(HostileSet, TenThousandThreadsWithOneMiBEachStayWithinTheSnapshot) {
  LabelImage image;
  image.label("k", std::string(1U << 20, 'x'));
  BufferMemory memory;
  image.build(memory);
  DecodeContext context;
  context.limits.value_bytes = 1U << 20;
  context.limits.bytes_per_thread = 4U << 20;
  std::size_t left = 64U << 20;
  context.bytes_left = &left;
  std::size_t bytes = 0, flagged = 0;
  for (int thread = 0; thread < 10'000; ++thread) {
    auto decoded = decode(Format::custom_labels_v1, memory, slot_at, context);
    ASSERT_TRUE(decoded);
    for (const Label& label : decoded->set.labels) bytes += label.value.size();
    if (has_cut(decoded->set, "bytes")) ++flagged;
  }
  EXPECT_LE(bytes, 64U << 20);
  EXPECT_GE(bytes, 60U << 20);
  EXPECT_EQ(flagged, 10'000 - (bytes >> 20));
}

// Item 6.

constexpr Address hostile_record_at = 0x60'0000;

Result<Decoded> decode_otel(Bytes record, const KeyMap* keys, Address at = hostile_record_at) {
  BufferMemory memory;
  memory.place(slot_at, Bytes().u64(at));
  memory.place(at, record);
  DecodeContext context;
  context.keys = keys;
  return decode(Format::otel_thread_ctx_v1, memory, slot_at, context);
}

const KeyMap one_key{{"tenant"}};

TEST(HostileThreadRecord, AttributesOf64KiBAtThePagesEnd) {
  auto record = Bytes().fill(24, 7).u8(1).u8(0).u16(65'535).u8(0).u8(4).text("acme").u8(0).u8(200);
  auto decoded = decode_otel(record, &one_key);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"tenant", "acme"}));
  EXPECT_TRUE(has_cut(decoded->set, "attributes"));
}

TEST(HostileThreadRecord, AttributesOf64KiBThatAreThere) {
  auto record = Bytes().fill(24, 7).u8(1).u8(0).u16(65'535);
  for (int i = 0; i < 32'767; ++i) record.u8(static_cast<std::uint8_t>(i)).u8(0);
  auto decoded = decode_otel(record.u8(0), &one_key);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"tenant", ""}));
  EXPECT_TRUE(decoded->needs_key_map_refresh);
  EXPECT_THAT(decoded->set.defects, SizeIs(16)) << "255 unknown keys and a byte too many";
}

TEST(HostileThreadRecord, Key255WithoutAMap) {
  auto decoded = decode_otel(Bytes().fill(24, 7).u8(1).u8(0).u16(3).u8(255).u8(1).u8(65), nullptr);
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(decoded->set.trace);
  EXPECT_THAT(decoded->set.labels, IsEmpty());
  EXPECT_TRUE(decoded->needs_key_map_refresh);
}

TEST(HostileThreadRecord, OddAddressIsReadAndReported) {
  auto decoded = decode_otel(Bytes().fill(24, 7).u8(1).u8(0).u16(3).u8(0).u8(1).u8(65), &one_key,
                             hostile_record_at + 1);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"tenant", "A"}));
  EXPECT_THAT(decoded->set.defects, ElementsAre(defect(SetRule::record_aligned, "odd")));
}

}  // namespace
}  // namespace vitrine::format
