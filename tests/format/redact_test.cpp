#include "format/redact.hpp"

#include <gmock/gmock.h>

#include <set>

#include "base/redaction.hpp"
#include "base/text.hpp"

namespace vitrine::format {
namespace {

using testing::ElementsAre;

std::string hmac(std::string_view key, std::string_view message) {
  return hex_text(hmac_sha256(std::as_bytes(std::span(key)), std::as_bytes(std::span(message))));
}

const std::string secret = "sixteen bytes ok";

// RFC 4231, 4.3 and 4.7: a short key, and one that is longer than a block.
TEST(Hmac, IsThatOfTheDocument) {
  EXPECT_EQ(hmac("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Redaction, CoversByKeyAndByKind) {
  const Redaction redaction({"user", "session.*", "arg.secret", "label.id", "arg2"}, secret);
  EXPECT_TRUE(redaction.covers_label("user"));
  EXPECT_TRUE(redaction.covers_label("session.id"));
  EXPECT_TRUE(redaction.covers_label("id"));
  EXPECT_FALSE(redaction.covers_label("secret"));
  EXPECT_FALSE(redaction.covers_label("users"));
  EXPECT_TRUE(redaction.covers_attribute("user"));
  EXPECT_FALSE(redaction.covers_attribute("id"));
  EXPECT_TRUE(redaction.covers_argument(0, "user"));
  EXPECT_TRUE(redaction.covers_argument(0, "secret"));
  EXPECT_TRUE(redaction.covers_argument(2, ""));
  EXPECT_FALSE(redaction.covers_argument(1, "id"));
  EXPECT_FALSE(Redaction().covers_label(""));
}

TEST(Redaction, TellsValuesApartWithoutTellingThem) {
  const Redaction one({"*"}, secret), other({"*"}, "another secret!!");
  EXPECT_EQ(one.replacement("a"), one.replacement("a"));
  EXPECT_NE(one.replacement("a"), other.replacement("a"));
  EXPECT_EQ(one.replacement(std::string_view("a\0b\xff", 4)),
            "redacted:" + hmac(secret, std::string_view("a\0b\xff", 4)).substr(0, 16));
  std::set<std::string> hashes;
  for (int i = 0; i < 10'000; ++i) hashes.insert(one.replacement(std::to_string(i)));
  EXPECT_EQ(hashes.size(), 10'000U);
}

TEST(RedactLabels, HiddenIdsAreLabels) {
  LabelSet set;
  set.labels = {{"user", "mallory"}, {"tenant", "acme"}};
  set.trace.emplace();
  set.trace->trace_id[15] = 1;
  set.trace->span_id[7] = 2;
  set.trace->root_span_id.emplace();
  const Redaction users({"user"}, secret), spans({"span_id"}, secret);
  const LabelSet without_user = redacted(set, users);
  EXPECT_THAT(without_user.labels,
              ElementsAre(Label{"user", users.replacement("mallory")}, Label{"tenant", "acme"}));
  EXPECT_EQ(without_user.trace, set.trace);
  const LabelSet without_span = redacted(set, spans);
  EXPECT_FALSE(without_span.trace);
  EXPECT_THAT(without_span.labels,
              ElementsAre(set.labels[0], set.labels[1],
                          Label{"trace_id", "00000000000000000000000000000001"},
                          Label{"span_id", spans.replacement("0000000000000002")},
                          Label{"root_span_id", spans.replacement("0000000000000000")}));
}

TEST(RedactContext, AtAnyDepthAndOfAnyType) {
  ProcessContext context;
  context.resource = {{"number", {std::int64_t{17}}},
                      {"text", {std::string("17")}},
                      {"nothing", {}},
                      {"list", {KeyValueList{{"text", {Blob{"17"}}}, {"plain", {true}}}}}};
  context.attributes = {{"array", {ValueArray{{KeyValueList{{"text", {true}}}}, {1.5}}}}};
  const Redaction redaction({"number", "text", "nothing"}, secret);
  const AnyValue hidden{redaction.replacement("17")};
  const ProcessContext after = redacted(context, redaction);
  EXPECT_EQ(after.resource[0].value, hidden);
  EXPECT_EQ(after.resource[1].value, hidden);
  EXPECT_EQ(after.resource[2].value, AnyValue{});
  EXPECT_EQ(after.resource[3].value, (AnyValue{KeyValueList{{"text", hidden}, {"plain", {true}}}}));
  EXPECT_EQ(
      after.attributes[0].value,
      (AnyValue{ValueArray{{KeyValueList{{"text", {redaction.replacement("true")}}}}, {1.5}}}));
  // Lists that differ have hashes that differ.
  const Redaction lists({"list"}, secret);
  ProcessContext other = context;
  std::get<KeyValueList>(other.resource[3].value.data)[1].value.data = false;
  EXPECT_TRUE(std::holds_alternative<std::string>(redacted(context, lists).resource[3].value.data));
  EXPECT_FALSE(redacted(context, lists).resource[3] == redacted(other, lists).resource[3]);
}

}  // namespace
}  // namespace vitrine::format
