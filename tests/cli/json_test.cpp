#include "cli/output/json.hpp"

#include <gtest/gtest.h>

namespace vitrine::cli {
namespace {

observe::ThreadLabels thread(Result<format::LabelSet> set) {
  return {1,
          2,
          "worker",
          format::Format::custom_labels_v1,
          "/bin/app",
          observe::Mode::snapshot,
          observe::Evidence::proven,
          std::move(set)};
}

TEST(LabelsJson, IsTheContract) {
  format::LabelSet set;
  set.labels = {{"tenant", "acme"}};
  EXPECT_EQ(to_json(thread(set)).dump(),
            R"({"pid":1,"tid":2,"comm":"worker","format":"custom-labels-v1","module":"/bin/app",)"
            R"("mode":"snapshot","evidence":"proven","labels":[{"key":"tenant","value":"acme"}]})");
}

TEST(LabelsJson, CarriesAnyBytes) {
  format::LabelSet set;
  set.labels = {
      {std::string("\xff\x00\x01", 3), "\x80"}, {"ctrl", "\x1b\n"}, {"four", "\xfe\xfe\xfe\xfe"}};
  EXPECT_EQ(to_json(thread(set))["labels"].dump(),
            R"([{"key":{"base64":"/wAB"},"value":{"base64":"gA=="}},)"
            R"({"key":"ctrl","value":"\u001b\n"},{"key":"four","value":{"base64":"/v7+/g=="}}])");
}

TEST(LabelsJson, AddsTheTraceContextInLowerCaseHex) {
  format::LabelSet set;
  set.trace.emplace();
  set.trace->trace_id = {0xAB, 1};
  set.trace->span_id = {0, 0xCD};
  set.trace->trace_flags = 1;
  const Json object = to_json(thread(set));
  EXPECT_EQ(object["trace_id"], "ab010000000000000000000000000000");
  EXPECT_EQ(object["span_id"], "00cd000000000000");
  EXPECT_EQ(object["trace_flags"], 1);
  EXPECT_FALSE(object.contains("root_span_id"));
  set.trace->root_span_id = std::array<std::uint8_t, 8>{7};
  EXPECT_EQ(to_json(thread(set))["root_span_id"], "0700000000000000");
  set.trace->trace_flags.reset();
  EXPECT_FALSE(to_json(thread(set)).contains("trace_flags"));
}

TEST(LabelsJson, SaysWhatWasCutAndWhatThePublisherBroke) {
  format::LabelSet set;
  set.truncated = {{"labels", "kept 256 of 1000"}};
  set.defects = {{format::SetRule::value_present, "label 3 has a null value"}};
  const Json object = to_json(thread(set));
  EXPECT_EQ(object["truncated"].dump(), R"([{"what":"labels","detail":"kept 256 of 1000"}])");
  EXPECT_EQ(object["defects"].dump(), R"(["label 3 has a null value"])");
}

TEST(LabelsJson, AThreadThatCouldNotBeReadHasAnErrorInsteadOfLabels) {
  const Json object = to_json(thread(fail(ErrorCode::malformed, "set at 0x10 is not readable")));
  EXPECT_EQ(object["error"], "set at 0x10 is not readable");
  EXPECT_FALSE(object.contains("labels"));
  EXPECT_EQ(object["evidence"], "proven") << "its memory was read, and is so";
  auto torn = thread(fail(ErrorCode::malformed, "set at 0x10 is not readable"));
  torn.evidence = observe::Evidence::unproven;
  EXPECT_EQ(to_json(torn)["evidence"], "unproven");
  EXPECT_FALSE(to_json(thread(fail(ErrorCode::failed, "it did not stop"))).contains("evidence"));
}

}  // namespace
}  // namespace vitrine::cli
