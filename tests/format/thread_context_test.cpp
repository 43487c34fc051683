// OTEP-4947 records, the v2 drafts and the Elastic record, decoded from literal byte tables.
#include <gmock/gmock.h>

#include "format/bytes.hpp"
#include "format/decode.hpp"
#include "format/label_matchers.hpp"

namespace vitrine::format {
namespace {

using namespace vitrine::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Address slot_at = 0x10'0000;
constexpr Address record_at = 0x20'0000;

const KeyMap keys{{"tenant", "route", std::nullopt, "user"}};

/// trace id 0x10…1f, span id 0x20…27.
Bytes ids() {
  Bytes bytes;
  for (std::uint8_t i = 0; i < 16; ++i) bytes.u8(static_cast<std::uint8_t>(0x10 + i));
  for (std::uint8_t i = 0; i < 8; ++i) bytes.u8(static_cast<std::uint8_t>(0x20 + i));
  return bytes;
}

Bytes attribute(std::uint8_t key, std::string_view value) {
  return Bytes().u8(key).u8(static_cast<std::uint8_t>(value.size())).text(value);
}

std::vector<std::byte> joined(std::initializer_list<std::vector<std::byte>> parts) {
  std::vector<std::byte> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// An OTEP record with these attribute bytes.
std::vector<std::byte> otel_record(std::vector<std::byte> attributes, std::uint8_t valid = 1,
                                   std::optional<std::uint16_t> size = {}) {
  return joined(
      {ids().u8(valid).u8(0x01).u16(size.value_or(static_cast<std::uint16_t>(attributes.size()))),
       std::move(attributes)});
}

Result<Decoded> decode_bytes(Format format, std::vector<std::byte> record,
                             DecodeContext context = {}) {
  if (!context.keys) context.keys = &keys;
  BufferMemory memory;
  memory.place(slot_at, Bytes().u64(record_at));
  memory.place(record_at, std::move(record));
  return decode(format, memory, slot_at, context);
}

TEST(OtelThreadContext, ReadsIdsFlagsAndAttributes) {
  auto decoded = decode_bytes(Format::otel_thread_ctx_v1,
                              otel_record(joined({attribute(1, "/pay"), attribute(0, "acme")})));
  ASSERT_TRUE(decoded) << decoded.error().message;
  ASSERT_TRUE(decoded->set.trace);
  EXPECT_EQ(decoded->set.trace->trace_id[0], 0x10);
  EXPECT_EQ(decoded->set.trace->trace_id[15], 0x1f);
  EXPECT_EQ(decoded->set.trace->span_id[7], 0x27);
  EXPECT_EQ(decoded->set.trace->trace_flags, 0x01);
  EXPECT_FALSE(decoded->set.trace->root_span_id);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"tenant", "acme"}, Label{"route", "/pay"}));
  EXPECT_THAT(decoded->set.defects, IsEmpty());
}

TEST(OtelThreadContext, NullSlotIsAnEmptySet) {
  BufferMemory memory;
  memory.place(slot_at, Bytes().u64(0));
  EXPECT_EQ(decode(Format::otel_thread_ctx_v1, memory, slot_at, {})->set, LabelSet{});
}

TEST(OtelThreadContext, OnlyValidExactlyOneCounts) {
  for (const std::uint8_t valid : std::initializer_list<std::uint8_t>{0, 2, 255}) {
    auto decoded =
        decode_bytes(Format::otel_thread_ctx_v1, otel_record(attribute(0, "acme"), valid));
    ASSERT_TRUE(decoded);
    EXPECT_THAT(decoded->set.labels, IsEmpty());
    EXPECT_FALSE(decoded->set.trace);
    EXPECT_THAT(decoded->set.defects, SizeIs(valid == 0 ? 0 : 1));
  }
}

TEST(OtelThreadContext, LastOfEqualKeysWins) {
  auto decoded = decode_bytes(
      Format::otel_thread_ctx_v1,
      otel_record(joined({attribute(0, "old"), attribute(3, "u"), attribute(0, "new")})));
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"tenant", "new"}, Label{"user", "u"}));
}

// The last of a key counts, and may be among those that were not copied.
TEST(OtelThreadContext, OfACopyWithoutItsEndTheIdsCountAlone) {
  DecodeContext copy;
  copy.is_copy = true;
  const auto decoded = decode_bytes(Format::otel_thread_ctx_v1,
                                    otel_record(attribute(0, "outdated"), 1, 5000), copy);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_TRUE(decoded->set.trace);
  EXPECT_THAT(decoded->set.labels, IsEmpty());
  EXPECT_THAT(decoded->set.truncated, SizeIs(1));
}

TEST(OtelThreadContext, ZeroIdsMeanNoTrace) {
  auto decoded =
      decode_bytes(Format::otel_thread_ctx_v1,
                   joined({Bytes().fill(24, 0).u8(1).u8(0).u16(6), attribute(0, "acme")}));
  ASSERT_TRUE(decoded);
  EXPECT_FALSE(decoded->set.trace);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"tenant", "acme"}));
}

TEST(OtelThreadContext, EntryThatDoesNotFitEndsTheList) {
  auto past = otel_record(joined({attribute(0, "acme"), Bytes().u8(1).u8(200).text("short")}));
  auto decoded = decode_bytes(Format::otel_thread_ctx_v1, past);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"tenant", "acme"}));
  EXPECT_THAT(decoded->set.defects, ElementsAre(defect(SetRule::attributes_fit, "attribute 1")));

  auto lone_byte = otel_record(joined({attribute(0, "acme"), Bytes().u8(1)}));
  decoded = decode_bytes(Format::otel_thread_ctx_v1, lone_byte);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"tenant", "acme"}));
  EXPECT_THAT(decoded->set.defects, ElementsAre(defect(SetRule::attributes_fit, "attribute 1")));
}

TEST(OtelThreadContext, BytesPastAttrsSizeAreNotRead) {
  auto record = otel_record(joined({attribute(0, "acme"), attribute(1, "stale")}), 1, 6);
  auto decoded = decode_bytes(Format::otel_thread_ctx_v1, record);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"tenant", "acme"}));
  EXPECT_THAT(decoded->set.defects, IsEmpty());
}

TEST(OtelThreadContext, EmptyValueIsALabel) {
  auto decoded = decode_bytes(Format::otel_thread_ctx_v1, otel_record(attribute(0, "")));
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"tenant", ""}));
}

TEST(OtelThreadContext, IndexOutsideTheKeyMapAsksForItOnceMore) {
  auto decoded = decode_bytes(Format::otel_thread_ctx_v1,
                              otel_record(joined({attribute(4, "new"), attribute(0, "acme")})));
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(decoded->needs_key_map_refresh);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"tenant", "acme"}));
  EXPECT_THAT(decoded->set.defects, ElementsAre(defect(SetRule::key_in_map, "attribute key 4")));
}

TEST(OtelThreadContext, NamelessIndexInTheMapIsIgnoredWithoutRefresh) {
  auto decoded = decode_bytes(Format::otel_thread_ctx_v1, otel_record(attribute(2, "x")));
  ASSERT_TRUE(decoded);
  EXPECT_FALSE(decoded->needs_key_map_refresh);
  EXPECT_THAT(decoded->set.labels, IsEmpty());
  EXPECT_THAT(decoded->set.defects, SizeIs(1));
}

TEST(OtelThreadContext, NameUsedTwiceInTheMapGivesOneLabel) {
  const KeyMap twice{{"k", "k"}};
  DecodeContext context;
  context.keys = &twice;
  auto decoded = decode_bytes(Format::otel_thread_ctx_v1,
                              otel_record(joined({attribute(1, "b"), attribute(0, "a")})), context);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"k", "a"}));
  EXPECT_THAT(decoded->set.defects, SizeIs(1));
}

TEST(OtelThreadContext, LimitsCutAndFlag) {
  DecodeContext context;
  context.limits.labels_per_set = 1;
  context.limits.value_bytes = 2;
  context.limits.key_bytes = 3;
  auto decoded =
      decode_bytes(Format::otel_thread_ctx_v1,
                   otel_record(joined({attribute(0, "acme"), attribute(1, "x")})), context);
  ASSERT_TRUE(decoded);
  EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"ten", "ac"}));
  std::vector<std::string> what;
  for (const Truncation& cut : decoded->set.truncated) what.push_back(cut.what);
  EXPECT_THAT(what, ElementsAre("key", "value", "labels"));
}

TEST(V2DraftsCD, HaveThe28ByteHeaderWithoutFlags) {
  for (const Format format : {Format::v2_draft_c, Format::v2_draft_d}) {
    auto decoded = decode_bytes(format, otel_record(attribute(0, "acme")));
    ASSERT_TRUE(decoded);
    ASSERT_TRUE(decoded->set.trace);
    EXPECT_FALSE(decoded->set.trace->trace_flags);
    EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"tenant", "acme"}));
  }
}

/// The 34-byte header of drafts A and B; root span id 0x30…37.
std::vector<std::byte> draft_record(std::uint8_t count, std::vector<std::byte> attributes,
                                    std::uint8_t valid = 1) {
  Bytes header = ids();
  for (std::uint8_t i = 0; i < 8; ++i) header.u8(static_cast<std::uint8_t>(0x30 + i));
  return joined({header.u8(valid).u8(count), std::move(attributes)});
}

TEST(V2DraftsAB, HaveThe34ByteHeaderWithACount) {
  for (const Format format : {Format::v2_draft_a, Format::v2_draft_b}) {
    auto decoded =
        decode_bytes(format, draft_record(2, joined({attribute(0, "acme"), attribute(1, "/pay"),
                                                     attribute(3, "beyond the count")})));
    ASSERT_TRUE(decoded) << decoded.error().message;
    ASSERT_TRUE(decoded->set.trace);
    EXPECT_FALSE(decoded->set.trace->trace_flags);
    ASSERT_TRUE(decoded->set.trace->root_span_id);
    EXPECT_EQ((*decoded->set.trace->root_span_id)[7], 0x37);
    EXPECT_THAT(decoded->set.labels, ElementsAre(Label{"tenant", "acme"}, Label{"route", "/pay"}));
    EXPECT_THAT(decoded->set.truncated, IsEmpty()) << "255-byte values would not have fitted";
  }
}

TEST(V2DraftsAB, ObeyValid) {
  auto decoded = decode_bytes(Format::v2_draft_b, draft_record(1, attribute(0, "acme"), 0));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->set, LabelSet{});
}

TEST(DraftAKeyTable, GivesNamesInOrder) {
  BufferMemory memory;
  memory.place(0x50'0000, Bytes().u8(1).fill(7, 0).u64(0x60'0000).u64(512));
  memory.place(0x60'0000, Bytes().u32(13).u8(6).text("tenant").u8(5).text("route").text("later"));
  auto map = read_key_table(memory, 0x50'0000, ~Address{0});
  ASSERT_TRUE(map) << map.error().message;
  EXPECT_EQ(*map, (KeyMap{{"tenant", "route"}}));
}

TEST(DraftAKeyTable, RefusesAnotherSchemaAndUnreadableTables) {
  BufferMemory memory;
  memory.place(0x50'0000, Bytes().u8(2).fill(7, 0).u64(0x60'0000).u64(512));
  EXPECT_EQ(read_key_table(memory, 0x50'0000, ~Address{0}).error().code, ErrorCode::unsupported);
  memory.place(0x50'0000, Bytes().u8(1).fill(7, 0).u64(0x60'0000).u64(512));
  EXPECT_EQ(read_key_table(memory, 0x50'0000, ~Address{0}).error().code, ErrorCode::malformed);
}

TEST(DraftAKeyTable, StopsAtTheCapAndAtUnreadableBytes) {
  BufferMemory memory;
  memory.place(0x50'0000, Bytes().u8(1).fill(7, 0).u64(0x60'0000).u64(512));
  memory.place(0x60'0000, Bytes().u32(0xffff'ffff).fill(1000, 0));
  EXPECT_THAT(read_key_table(memory, 0x50'0000, ~Address{0})->names, SizeIs(256));
  memory.place(0x60'0000, Bytes().u32(0xffff'ffff).u8(1).text("a").u8(9).text("cut"));
  EXPECT_EQ(*read_key_table(memory, 0x50'0000, ~Address{0}), (KeyMap{{"a"}}));
}

std::vector<std::byte> elastic_record(std::uint16_t minor, std::uint8_t valid,
                                      std::uint8_t present) {
  Bytes bytes = Bytes().u16(minor).u8(valid).u8(present).u8(0x01);
  for (std::uint8_t i = 0; i < 32; ++i) bytes.u8(static_cast<std::uint8_t>(0x40 + i));
  return bytes;
}

TEST(Elastic, ReadsIdsFlagsAndTransaction) {
  auto decoded = decode_bytes(Format::elastic_v1, elastic_record(1, 1, 1));
  ASSERT_TRUE(decoded) << decoded.error().message;
  ASSERT_TRUE(decoded->set.trace);
  EXPECT_EQ(decoded->set.trace->trace_id[0], 0x40);
  EXPECT_EQ(decoded->set.trace->span_id[0], 0x50);
  EXPECT_EQ((*decoded->set.trace->root_span_id)[0], 0x58);
  EXPECT_EQ(decoded->set.trace->trace_flags, 0x01);
  EXPECT_THAT(decoded->set.labels, IsEmpty());
  EXPECT_THAT(decoded->set.defects, IsEmpty());
}

TEST(Elastic, WithoutValidOrPresentThereIsNoTrace) {
  EXPECT_EQ(decode_bytes(Format::elastic_v1, elastic_record(1, 0, 1))->set, LabelSet{});
  EXPECT_EQ(decode_bytes(Format::elastic_v1, elastic_record(1, 1, 0))->set, LabelSet{});
  EXPECT_THAT(decode_bytes(Format::elastic_v1, elastic_record(1, 9, 1))->set.defects, SizeIs(1));
}

TEST(Elastic, ShortRecordIsAnError) {
  auto bytes = elastic_record(1, 1, 1);
  bytes.pop_back();
  EXPECT_EQ(decode_bytes(Format::elastic_v1, bytes).error().code, ErrorCode::malformed);
}

}  // namespace
}  // namespace vitrine::format
