// Payloads of the process context: the protobuf rules of docs/formats/process-context.md,
// "Payload", old forms, msgpack.
#include "format/process_context.hpp"

#include <gmock/gmock.h>

#include <limits>

#include "format/bytes.hpp"
#include "format/protobuf.hpp"

namespace vitrine::format {
namespace {

using namespace vitrine::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Result<ProcessContext> decode2(const std::string& payload) {
  return decode_payload(2, pb::bytes(payload));
}

KeyValue text(std::string key, std::string value) {
  return {std::move(key), AnyValue{std::move(value)}};
}

TEST(ProcessContext, LiteralBytes) {
  const std::string payload =
      // ProcessContext.resource, 28 bytes: Resource.attributes, 26 bytes
      "\x0a\x1c\x0a\x1a"
      "\x0a\x0cservice.name"  // KeyValue.key
      "\x12\x0a\x0a\x08"      // KeyValue.value, AnyValue.string_value
      "checkout"
      // ProcessContext.attributes: KeyValue {"n", AnyValue.int_value 150}
      "\x12\x08\x0a\x01n\x12\x03\x18\x96\x01";
  auto context = decode2(payload);
  ASSERT_TRUE(context) << context.error().message;
  EXPECT_EQ(context->version, 2u);
  EXPECT_FALSE(context->bare_resource);
  EXPECT_THAT(context->resource, ElementsAre(text("service.name", "checkout")));
  EXPECT_THAT(context->attributes, ElementsAre(KeyValue{"n", AnyValue{std::int64_t{150}}}));
  EXPECT_THAT(context->truncated, IsEmpty());
  EXPECT_THAT(context->defects, IsEmpty());
}

TEST(ProcessContext, EveryKindOfValue) {
  const std::string pi("\x21\x18\x2d\x44\x54\xfb\x21\x09\x40", 9);  // field 4, I64
  const auto array = pb::field(5, pb::field(1, pb::text_value("a")) + pb::field(1, ""));
  const auto list = pb::field(6, pb::field(1, pb::key_value("k", pb::text_value("v"))));
  auto context = decode2(pb::with_resource(
      {pb::key_value("bool", pb::varint(2, 1)),
       pb::key_value("negative", pb::varint(3, static_cast<std::uint64_t>(-5))),
       pb::key_value("double", pi), pb::key_value("array", array), pb::key_value("list", list),
       pb::key_value("bytes", pb::field(7, std::string_view("\0\xff", 2))),
       pb::key_value("none", "")}));
  ASSERT_TRUE(context) << context.error().message;
  EXPECT_THAT(
      context->resource,
      ElementsAre(KeyValue{"bool", {true}}, KeyValue{"negative", {std::int64_t{-5}}},
                  KeyValue{"double", {3.141592653589793}},
                  KeyValue{"array", {ValueArray{AnyValue{std::string("a")}, AnyValue{}}}},
                  KeyValue{"list", {KeyValueList{text("k", "v")}}},
                  KeyValue{"bytes", {Blob{std::string("\0\xff", 2)}}}, KeyValue{"none", {}}));
}

TEST(ProcessContext, OneWithNaNEqualsItself) {
  const auto with = [](std::uint64_t bits) {
    const std::string number(reinterpret_cast<const char*>(&bits), sizeof bits);
    return *decode2(
        pb::with_resource({pb::key_value("k", pb::field(5, pb::field(1, "\x21" + number)))}));
  };
  EXPECT_EQ(with(0x7ff8000000000000), with(0x7ff8000000000000));
  EXPECT_FALSE(with(0x7ff8000000000000) == with(0));
}

TEST(ProcessContext, UnknownFieldsAreSkippedByWireType) {
  const std::string unknown = pb::varint(99, 7) + std::string("\xa1\x06", 2) + "12345678" +  // I64
                              pb::field(101, "anything") + std::string("\xb5\x06", 2) + "1234";
  auto context = decode2(
      unknown +
      pb::field(1,
                unknown + pb::field(1, unknown + pb::key_value("k", unknown + pb::text_value("v")) +
                                           unknown)) +
      unknown);
  ASSERT_TRUE(context) << context.error().message;
  EXPECT_THAT(context->resource, ElementsAre(text("k", "v")));
}

TEST(ProcessContext, KnownFieldOfAnotherWireTypeIsSkipped) {
  auto context =
      decode2(pb::varint(1, 5) + pb::with_resource({pb::key_value("k", pb::varint(1, 5))}));
  ASSERT_TRUE(context) << context.error().message;
  EXPECT_THAT(context->resource, ElementsAre(KeyValue{"k", {}}));
}

TEST(ProcessContext, RepeatedSingularMessagesMerge) {
  auto context = decode2(pb::with_resource({pb::key_value("a", pb::text_value("1"))}) +
                         pb::with_resource({pb::key_value("b", pb::text_value("2"))}));
  ASSERT_TRUE(context);
  EXPECT_THAT(context->resource, ElementsAre(text("a", "1"), text("b", "2")));

  // The value of one KeyValue in two pieces: the arrays are one array.
  const auto piece = [](const char* element) {
    return pb::field(2, pb::field(5, pb::field(1, pb::text_value(element))));
  };
  context = decode2(pb::with_resource({pb::field(1, "k") + piece("x") + piece("y")}));
  ASSERT_TRUE(context);
  EXPECT_THAT(context->resource,
              ElementsAre(KeyValue{
                  "k", {ValueArray{AnyValue{std::string("x")}, AnyValue{std::string("y")}}}}));
}

TEST(ProcessContext, LastOneofMemberWins) {
  auto context = decode2(pb::with_resource(
      {pb::key_value("k", pb::text_value("text") + pb::varint(2, 1) + pb::varint(3, 42))}));
  ASSERT_TRUE(context);
  EXPECT_THAT(context->resource, ElementsAre(KeyValue{"k", {std::int64_t{42}}}));
}

TEST(ProcessContext, EntityRefsAndDroppedCount) {
  const auto entity = pb::field(1, "https://schema") + pb::field(2, "service") +
                      pb::field(3, "service.name") + pb::field(3, "service.namespace") +
                      pb::field(4, "service.version");
  auto context = decode2(pb::field(1, pb::varint(2, 3) + pb::field(3, entity)));
  ASSERT_TRUE(context);
  EXPECT_EQ(context->dropped_attributes_count, 3u);
  EXPECT_THAT(context->entity_refs, ElementsAre(EntityRef{"https://schema",
                                                          "service",
                                                          {"service.name", "service.namespace"},
                                                          {"service.version"}}));
}

TEST(ProcessContext, RepeatedKeysAreKeptAndTheLastIsFound) {
  auto context = decode2(pb::with_resource(
      {pb::key_value("k", pb::text_value("1")), pb::key_value("k", pb::text_value("2"))}));
  ASSERT_TRUE(context);
  EXPECT_THAT(context->resource, SizeIs(2));
  EXPECT_EQ(*find_text(context->resource, "k"), "2");
  EXPECT_EQ(find(context->resource, "absent"), nullptr);
  EXPECT_THAT(context->defects, ElementsAre(HasSubstr("resource: repeated keys: 1")));
}

TEST(ProcessContext, BareResourceOfEarlyPublishersIsRecognised) {
  auto context = decode2(pb::field(1, pb::key_value("service.name", pb::text_value("old"))) +
                         pb::field(1, pb::key_value("pid", pb::varint(3, 7))));
  ASSERT_TRUE(context) << context.error().message;
  EXPECT_TRUE(context->bare_resource);
  EXPECT_THAT(context->resource,
              ElementsAre(text("service.name", "old"), KeyValue{"pid", {std::int64_t{7}}}));
}

TEST(ProcessContext, BrokenPayloadIsNotTakenForABareResource) {
  auto payload = pb::with_resource({pb::key_value("k", pb::text_value("v"))});
  payload.pop_back();
  auto context = decode2(payload);
  ASSERT_FALSE(context);
  EXPECT_EQ(context.error().code, ErrorCode::malformed);
}

TEST(ProcessContext, EmptyMessagesAreValid) {
  EXPECT_THAT(decode2(pb::field(1, ""))->resource, IsEmpty());
  EXPECT_THAT(decode2(pb::field(1, pb::field(1, "")))->resource, ElementsAre(KeyValue{}));
}

TEST(ProcessContext, OtherVersionsAreUnsupported) {
  for (const std::uint32_t version : {0u, 3u, 0xffff'ffffu})
    EXPECT_EQ(decode_payload(version, {}).error().code, ErrorCode::unsupported);
}

TEST(ProcessContextMsgpack, MapOfAttributes) {
  const std::vector<std::byte> payload = Bytes()
                                             .u8(0x84)  // map of 4
                                             .u8(0xac)
                                             .text("service.name")
                                             .u8(0xa3)
                                             .text("web")
                                             .u8(0xa1)
                                             .text("n")
                                             .u8(0xff)  // -1
                                             .u8(0xa1)
                                             .text("a")
                                             .u8(0x92)
                                             .u8(0xc3)
                                             .u8(0xc0)
                                             .u8(0xa1)
                                             .text("m")
                                             .u8(0x81)
                                             .u8(0xa1)
                                             .text("k")
                                             .u8(0xc4)
                                             .u8(2)
                                             .u8(0)
                                             .u8(255);  // bin 8
  auto context = decode_payload(1, payload);
  ASSERT_TRUE(context) << context.error().message;
  EXPECT_EQ(context->version, 1u);
  EXPECT_THAT(context->resource,
              ElementsAre(text("service.name", "web"), KeyValue{"n", {std::int64_t{-1}}},
                          KeyValue{"a", {ValueArray{AnyValue{true}, AnyValue{}}}},
                          KeyValue{"m", {KeyValueList{{"k", {Blob{std::string("\0\xff", 2)}}}}}}));
}

TEST(ProcessContextMsgpack, BrokenPayloadsAreRefused) {
  EXPECT_EQ(decode_payload(1, {}).error().code, ErrorCode::malformed);
  EXPECT_EQ(decode_payload(1, bytes_of("\xa3"
                                       "web"))
                .error()
                .code,
            ErrorCode::malformed)
      << "not a map";
  EXPECT_EQ(decode_payload(1, bytes_of("\x90")).error().code, ErrorCode::malformed) << "an array";
  EXPECT_EQ(decode_payload(1, Bytes().u8(0x81).u8(0xdb).u32(0xffff'ffff)).error().code,
            ErrorCode::malformed)
      << "a key of 4 GiB";
  EXPECT_EQ(decode_payload(1, Bytes().u8(0xdf).u32(0xffff'ffff)).error().code, ErrorCode::malformed)
      << "a map of 4 G entries";
  EXPECT_EQ(decode_payload(1, Bytes().u8(0x80).u8(0x80)).error().code, ErrorCode::malformed)
      << "bytes after the map";
}

TEST(ProcessContextMsgpack, NestingIsBounded) {
  const std::vector<std::byte> payload = Bytes().u8(0x81).u8(0xa1).text("k").fill(1U << 20, 0x91);
  EXPECT_EQ(decode_payload(1, payload).error().code, ErrorCode::limit);
}

TEST(ProcessContextMsgpack, AttributesAreBounded) {
  Bytes payload = Bytes().u8(0xde).u16(0xd007);  // map 16 of 2,000, big-endian
  for (int i = 0; i < 2000; ++i) payload.u8(0xa1).text("k").u8(0x01);
  auto context = decode_payload(1, payload);
  ASSERT_TRUE(context) << context.error().message;
  EXPECT_THAT(context->resource, SizeIs(1024));
  EXPECT_THAT(context->truncated, ElementsAre(testing::Field(&Truncation::what, "attributes")));
}

}  // namespace
}  // namespace vitrine::format
