// docs/formats/custom-labels.md, "What a reader must check", against a real process:
// tests/writers/hostile.c has one case on display in each of its threads.
#include <gmock/gmock.h>

#include <chrono>
#include <map>
#include <sstream>

#include "observe/labels/labels.hpp"
#include "support/child.hpp"

namespace vitrine::observe {
namespace {

using namespace vitrine::test;
using format::Label;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class HostileProcess : public testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    for (const std::string& line : child_.read_until("ready")) {
      std::istringstream words(line);
      std::string name;
      words >> name >> tids_[name];
    }
    LabelOptions options;
    options.mode = GetParam();
    options.stop_deadline = std::chrono::seconds(20);
    auto reader = LabelReader::open(child_.pid(), options);
    ASSERT_TRUE(reader) << reader.error().message;
    const auto begin = std::chrono::steady_clock::now();
    auto snapshot = (*reader)->read(std::chrono::milliseconds(0));
    took_ = std::chrono::steady_clock::now() - begin;
    ASSERT_TRUE(snapshot) << snapshot.error().message;
    snapshot_ = std::move(*snapshot);
  }

  Result<format::LabelSet> set(const std::string& name, format::Format format) {
    for (const ThreadLabels& thread : snapshot_.threads)
      if (thread.tid == tids_[name] && thread.format == format) return thread.set;
    return fail(ErrorCode::failed, "no result for the thread of case " + name);
  }

  Result<format::LabelSet> labels(const std::string& name) {
    return set(name, format::Format::custom_labels_v1);
  }

  void expect_malformed(const char* name) {
    const auto found = labels(name);
    ASSERT_FALSE(found) << name;
    EXPECT_EQ(found.error().code, ErrorCode::malformed) << name << ": " << found.error().message;
  }

  static std::vector<std::string> cuts(const format::LabelSet& set) {
    std::vector<std::string> what;
    for (const format::Truncation& cut : set.truncated) what.push_back(cut.what);
    return what;
  }

  Child child_ = Child::spawn({HOSTILE_WRITER});
  std::map<std::string, int> tids_;
  Snapshot snapshot_;
  std::chrono::steady_clock::duration took_{};
};

TEST_P(HostileProcess, WildSetPointersAreErrors) {
  for (const char* name : {"kernel", "non-canonical", "small", "highest", "unmapped", "prot-none",
                           "device", "truncated-file", "page-end-1"})
    expect_malformed(name);
}

TEST_P(HostileProcess, WildArrayPointersAreErrors) {
  for (const char* name : {"array-prot-none", "array-wraps"}) expect_malformed(name);
}

TEST_P(HostileProcess, OtherThreadsAreReadAllTheSame) {
  for (const char* name : {"good", "unaligned", "whole-at-page-end"}) {
    const auto found = labels(name);
    ASSERT_TRUE(found) << name << ": " << found.error().message;
    EXPECT_THAT(found->labels, ElementsAre(Label{"tenant", "acme"}, Label{"route", "/pay"}));
    EXPECT_THAT(found->truncated, IsEmpty()) << name;
    EXPECT_THAT(found->defects, IsEmpty()) << name;
  }
}

TEST_P(HostileProcess, WhatIsMappedIsRead) {
  auto found = labels("array-cut");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(found->labels, ElementsAre(Label{"tenant", "acme"}, Label{"route", "/pay"}));
  EXPECT_THAT(cuts(*found), ElementsAre("labels"));

  found = labels("value-cut");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(found->labels, ElementsAre(Label{"k", "edge"}));
  EXPECT_THAT(cuts(*found), ElementsAre("value"));

  found = labels("value-prot-none");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(found->labels, ElementsAre(Label{"k", ""}));
  EXPECT_THAT(cuts(*found), ElementsAre("value"));

  found = labels("key-device");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(found->labels, IsEmpty());
  EXPECT_THAT(found->defects,
              ElementsAre(testing::Field(&format::Defect::text, HasSubstr("not readable"))));

  found = set("otel-page-end", format::Format::otel_thread_ctx_v1);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->trace);
  EXPECT_THAT(cuts(*found), ElementsAre("attributes"));
}

TEST_P(HostileProcess, ExcessIsCutAndFlagged) {
  auto found = labels("duplicates");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(found->labels, ElementsAre(Label{"tenant", "acme"}));
  EXPECT_FALSE(found->truncated.empty());

  found = labels("null-keys");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(found->labels, IsEmpty());
  EXPECT_THAT(cuts(*found), ElementsAre("labels"));

  found = labels("large-value");
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_THAT(found->labels, SizeIs(1));
  EXPECT_EQ(found->labels[0].value, std::string(16 * 1024, 'x'));
  EXPECT_THAT(cuts(*found), ElementsAre("value"));

  found = labels("self");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(found->labels, SizeIs(testing::Le(1u)));
}

TEST_P(HostileProcess, WhatManyThreadsShareCountsForEach) {
  LabelOptions options;
  options.mode = GetParam();
  options.stop_deadline = std::chrono::seconds(20);
  options.limits.bytes_per_snapshot = 64 * 1024;
  auto reader = LabelReader::open(child_.pid(), options);
  ASSERT_TRUE(reader) << reader.error().message;
  for (int reading = 0; reading < 3; ++reading) {  // the second one may remember the first
    const auto snapshot = (*reader)->read(std::chrono::milliseconds(0));
    ASSERT_TRUE(snapshot) << snapshot.error().message;
    std::size_t bytes = 0, cut = 0;
    for (const ThreadLabels& thread : snapshot->threads) {
      if (!thread.set) continue;
      for (const Label& label : thread.set->labels) bytes += label.key.size() + label.value.size();
      if (thread.set->labels.empty() && cuts(*thread.set) == std::vector<std::string>{"bytes"})
        ++cut;
    }
    EXPECT_LE(bytes, options.limits.bytes_per_snapshot);
    EXPECT_GE(cut, 4U) << "eight have 15,000 bytes each";
  }
}

TEST_P(HostileProcess, NoneOfThemTakesLong) {
  EXPECT_LT(took_, std::chrono::seconds(20));
  EXPECT_EQ(snapshot_.threads.size(), 2 * (tids_.size() + 1)) << "two formats, and the main thread";
}

INSTANTIATE_TEST_SUITE_P(Modes, HostileProcess, testing::Values(Mode::snapshot, Mode::ptrace),
                         [](const auto& mode) { return std::string(name(mode.param)); });

}  // namespace
}  // namespace vitrine::observe
