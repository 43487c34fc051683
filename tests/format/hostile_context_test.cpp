// docs/formats/process-context.md, "What a reader must check": protobuf that breaks rules.
#include <gmock/gmock.h>

#include "format/process_context.hpp"
#include "format/protobuf.hpp"
#include "format/thread_schema.hpp"

namespace vitrine::format {
namespace {

using namespace vitrine::test;
using testing::ElementsAre;
using testing::SizeIs;

Result<ProcessContext> decode_hostile(const std::string& payload) {
  return decode_payload(2, pb::bytes(payload));
}

void expect_refused(const std::string& payload, const char* why, const char* reason = "") {
  auto context = decode_hostile(payload);
  ASSERT_FALSE(context) << why;
  EXPECT_EQ(context.error().code, ErrorCode::malformed) << why;
  EXPECT_THAT(context.error().message, testing::HasSubstr(reason)) << why;
  EXPECT_THAT(context.error().message, testing::Not(testing::HasSubstr("exception"))) << why;
}

bool context_has_cut(const ProcessContext& context, std::string_view what) {
  return std::any_of(context.truncated.begin(), context.truncated.end(),
                     [&](const Truncation& cut) { return cut.what == what; });
}

TEST(HostileProtobuf, VarintOfElevenBytes) {
  expect_refused("\x18" + std::string(10, '\xff') + "\x01", "an unknown field",
                 "more than 10 bytes");
  expect_refused(pb::with_resource({pb::key_value("k", "\x18" + std::string(11, '\x80'))}),
                 "an integer value");
}

TEST(HostileProtobuf, VarintThatEndsWithItsMessage) {
  expect_refused(pb::with_resource({pb::key_value("k", "\x18")}), "no byte");
  expect_refused(pb::with_resource({pb::key_value("k", "\x18\x80")}), "continued, and nothing");
  expect_refused(pb::with_resource({pb::key_value("k", "\x10")}), "a bool without a byte");
}

TEST(HostileProtobuf, LengthPastTheEnd) {
  expect_refused("\x0a\x05\x0a", "outer message", "ends after the message");
  expect_refused(pb::field(1, "\x0a\x7f"), "inner message");
  expect_refused(std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "2^64 - 1 bytes");
}

TEST(HostileProtobuf, FixedWidthPastTheEnd) {
  expect_refused(pb::with_resource({pb::key_value("k",
                                                  "\x21"
                                                  "1234")}),
                 "half a double");
  expect_refused(
      "\x25"
      "12",
      "half a fixed32");
}

TEST(HostileProtobuf, Groups) {
  expect_refused("\x0b\x0c", "start and end group", "a group");
  expect_refused(pb::with_resource({"\x1b\x1c"}), "a group in a KeyValue");
}

TEST(HostileProtobuf, FieldNumber0AndUnknownWireTypes) {
  expect_refused(std::string("\x02\x01x", 3), "field number 0", "not permitted");
  expect_refused(std::string("\x00\x00", 2), "tag 0");
  expect_refused("\x0e", "wire type 6");
  expect_refused("\x0f", "wire type 7");
}

TEST(HostileProtobuf, NestingOf10000Levels) {
  std::string value = pb::text_value("deep");
  for (int i = 0; i < 10'000; ++i) value = pb::field(5, pb::field(1, value));
  auto context = decode_hostile(
      pb::with_resource({pb::key_value("k", value), pb::key_value("after", pb::text_value("v"))}));
  ASSERT_TRUE(context) << context.error().message;
  EXPECT_THAT(context->resource, SizeIs(2));
  EXPECT_TRUE(context_has_cut(*context, "nesting"));
  // Of the array in k there are 16 levels.
  const AnyValue* level = find(context->resource, "k");
  int depth = 0;
  for (const ValueArray* array; (array = std::get_if<ValueArray>(&level->data)); ++depth) {
    ASSERT_THAT(*array, SizeIs(1));
    level = &array->front();
  }
  EXPECT_EQ(depth, 16);
}

TEST(HostileProtobuf, AMillionEmptyAttributes) {
  std::string resource;
  for (int i = 0; i < 500'000; ++i) resource += pb::field(1, "");
  auto context = decode_hostile(pb::field(1, resource));
  ASSERT_TRUE(context);
  EXPECT_THAT(context->resource, SizeIs(1024));
  EXPECT_TRUE(context_has_cut(*context, "attributes"));

  std::string array;
  for (int i = 0; i < 500'000; ++i) array += pb::field(1, "");
  context = decode_hostile(pb::with_resource({pb::key_value("k", pb::field(5, array))}));
  ASSERT_TRUE(context);
  EXPECT_THAT(std::get<ValueArray>(context->resource[0].value.data), SizeIs(1024));
  EXPECT_TRUE(context_has_cut(*context, "attributes"));
}

TEST(HostileProtobuf, KeyMapOf300EntriesAndStrangers) {
  std::string names;
  for (int i = 0; i < 300; ++i)
    names += pb::field(1, i % 2 ? pb::varint(3, 1) : pb::text_value("k" + std::to_string(i)));
  auto context = decode_hostile(
      pb::field(2, pb::key_value("threadlocal.schema_version", pb::text_value("tls_v1"))) +
      pb::field(2, pb::key_value("threadlocal.attribute_key_map", pb::field(5, names))));
  ASSERT_TRUE(context);
  auto schema = schema_of(*context);
  ASSERT_TRUE(schema);
  ASSERT_THAT(schema->keys.names, SizeIs(256));
  EXPECT_EQ(schema->keys.names[254], "k254");
  EXPECT_EQ(schema->keys.names[255], std::nullopt);
}

TEST(HostileProtobuf, InvalidUtf8IsKeptAsBytes) {
  auto context =
      decode_hostile(pb::with_resource({pb::key_value("\xff\xc0", pb::text_value("\x80"))}));
  ASSERT_TRUE(context);
  EXPECT_THAT(context->resource, ElementsAre(KeyValue{"\xff\xc0", {std::string("\x80")}}));
}

TEST(HostileProtobuf, EveryPrefixOfAGoodPayloadIsRefusedOrRead) {
  const auto whole =
      pb::with_resource({pb::key_value("service.name", pb::text_value("web")),
                         pb::key_value("n", pb::varint(3, 300)),
                         pb::key_value("a", pb::field(5, pb::field(1, pb::text_value("x"))))}) +
      pb::field(2, pb::key_value("k", pb::field(7, "bytes")));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    auto context = decode_hostile(whole.substr(0, size));
    const bool at_a_boundary = size == 0 || size == whole.size() - 2 - 3 - 9 /* second field */;
    if (!at_a_boundary) {
      EXPECT_FALSE(context) << size;
    }
  }
}

}  // namespace
}  // namespace vitrine::format
