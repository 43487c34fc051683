#include <gtest/gtest.h>

#include "cli/labels/command.hpp"
#include "cli/trace/output.hpp"

namespace vitrine::cli {
namespace {

using format::Format;
using observe::Evidence;
using observe::ThreadLabels;

ThreadLabels reading(int tid, Format format, std::vector<format::Label> labels,
                     Evidence evidence = Evidence::proven) {
  format::LabelSet set;
  set.labels = std::move(labels);
  return {1, tid, "worker", format, "/bin/app", observe::Mode::snapshot, evidence, set};
}

std::string text(std::vector<ThreadLabels> threads, bool every_thread = false) {
  std::string all;
  EXPECT_TRUE(print_labels({std::move(threads), {}}, every_thread, Style(false),
                           [&](std::string_view piece) {
                             all += piece;
                             return true;
                           }));
  return all;
}

TEST(LabelsText, ShowsOnceWhatTwoFormatsSayAlike) {
  ThreadLabels record =
      reading(7, Format::otel_thread_ctx_v1, {{"route", "/pay"}, {"tenant", "acme"}});
  record.set->trace.emplace();
  record.set->trace->trace_id.fill(0x11);
  record.set->trace->span_id.fill(0x22);
  const ThreadLabels set = reading(7, Format::custom_labels_v1,
                                   {{"tenant", "acme"},
                                    {"route", "/pay"},
                                    {"trace_id", std::string(32, '1')},
                                    {"span_id", std::string(16, '2')}});
  EXPECT_EQ(text({set, record}),
            "custom-labels-v1, otel-thread-ctx-v1 from /bin/app\n"
            "  TID  THREAD  EVIDENCE  LABELS\n"
            "  7    worker  proven    tenant=acme route=/pay "
            "trace=11111111111111111111111111111111/2222222222222222\n");
}

TEST(LabelsText, ComesLineByLineUntilNobodyReadsIt) {
  std::vector<ThreadLabels> threads;
  for (int tid = 1; tid <= 20; ++tid)
    threads.push_back(reading(tid, Format::custom_labels_v1, {{"a", std::string(1000, 'x')}}));
  std::size_t longest = 0, pieces = 0;
  const auto take = [&](std::size_t most) {
    return [&, most](std::string_view piece) {
      longest = std::max(longest, piece.size());
      return ++pieces < most;
    };
  };
  EXPECT_TRUE(print_labels({threads, {}}, false, Style(false), take(100)));
  EXPECT_EQ(pieces, 22U) << "a heading, the heads of the columns, and the threads";
  EXPECT_LT(longest, 1100U);
  pieces = 0;
  EXPECT_FALSE(print_labels({threads, {}}, false, Style(false), take(5)));
  EXPECT_EQ(pieces, 5U);
}

TEST(LabelsText, NamesTheFormatsWhereTheyDiffer) {
  EXPECT_EQ(text({reading(7, Format::custom_labels_v1, {{"a", "1"}}),
                  reading(7, Format::otel_thread_ctx_v1, {{"a", "2"}}, Evidence::unproven)}),
            "custom-labels-v1, otel-thread-ctx-v1 from /bin/app\n"
            "  TID  THREAD  EVIDENCE  LABELS\n"
            "  7    worker  proven    a=1 (custom-labels-v1 only)\n"
            "  7    worker  unproven  a=2 (otel-thread-ctx-v1 only)\n");
}

TEST(LabelsText, NamesTheModulesWhereTheFormatIsTheSame) {
  ThreadLabels other = reading(7, Format::custom_labels_v1, {{"a", "2"}});
  other.module = "/lib/plugin.so";
  EXPECT_EQ(text({reading(7, Format::custom_labels_v1, {{"a", "1"}}),
                  reading(7, Format::otel_thread_ctx_v1, {{"a", "1"}}), other}),
            "custom-labels-v1, otel-thread-ctx-v1 from /bin/app\n"
            "custom-labels-v1 from /lib/plugin.so\n"
            "  TID  THREAD  EVIDENCE  LABELS\n"
            "  7    worker  proven    a=1 (custom-labels-v1 of /bin/app, otel-thread-ctx-v1 only)\n"
            "  7    worker  proven    a=2 (custom-labels-v1 of /lib/plugin.so only)\n");
}

TEST(LabelsText, ShowsTheEvidenceOfWhatItCouldNotDecode) {
  ThreadLabels torn = reading(7, Format::custom_labels_v1, {}, Evidence::unproven);
  torn.set = fail(ErrorCode::malformed, "set at 0x10 is not readable");
  ThreadLabels busy = reading(8, Format::custom_labels_v1, {}, Evidence::unproven);
  busy.set = fail(ErrorCode::failed, "it did not stop");
  const std::string shown = text({torn, busy});
  EXPECT_NE(shown.find("7    worker  unproven  not read: set at 0x10"), std::string::npos);
  EXPECT_NE(shown.find("8    worker  -         not read: it did not stop"), std::string::npos);
}

TEST(LabelsText, ShowsTheWeakestEvidenceOfWhatItMerges) {
  EXPECT_NE(text({reading(7, Format::custom_labels_v1, {{"a", "1"}}, Evidence::unproven),
                  reading(7, Format::otel_thread_ctx_v1, {{"a", "1"}})})
                .find("unproven"),
            std::string::npos);
}

TEST(LabelsText, CountsThreadsWithNothingInForceOrListsThem) {
  const std::vector<ThreadLabels> threads = {reading(7, Format::custom_labels_v1, {{"a", "1"}}),
                                             reading(8, Format::custom_labels_v1, {}),
                                             reading(9, Format::custom_labels_v1, {})};
  EXPECT_NE(text(threads).find("  2 threads without labels\n"), std::string::npos);
  EXPECT_NE(text(threads, true).find("  8    worker  proven\n"), std::string::npos);
}

TEST(LabelsText, SaysWhyAThreadWasNotReadAndWhatWasCut) {
  ThreadLabels failed = reading(7, Format::custom_labels_v1, {});
  failed.set = fail(ErrorCode::malformed, "set at 0x10 is not readable");
  ThreadLabels cut = reading(8, Format::custom_labels_v1, {{"a", "\x1b[2J"}});
  cut.set->truncated = {{"value", "kept 4 of 9 bytes"}};
  const std::string shown = text({failed, cut});
  EXPECT_NE(shown.find("not read: set at 0x10 is not readable"), std::string::npos);
  EXPECT_NE(shown.find("a=\\x1b[2J (value cut: kept 4 of 9 bytes)"), std::string::npos);
}

TEST(LabelTexts, TakeBoundedMemoryHoweverLargeTheSetsAre) {
  const std::string large(64 * 1024, 'x');
  const format::LabelSet set;
  LabelTexts texts;
  for (std::uint64_t id = 1; id <= 2 * LabelTexts::max_bytes / large.size(); ++id) {
    observe::TraceEvent event;
    event.labels = &set;
    event.labels_id = id;
    int made = 0;
    const auto make = [&](const format::LabelSet&) {
      ++made;
      return large + std::to_string(id);
    };
    texts.of(event, make);
    ASSERT_EQ(texts.of(event, make), large + std::to_string(id));
    ASSERT_EQ(made, 1);
    ASSERT_GT(texts.bytes(), large.size());
    ASSERT_LE(texts.bytes(), LabelTexts::max_bytes);
  }
}

}  // namespace
}  // namespace vitrine::cli
