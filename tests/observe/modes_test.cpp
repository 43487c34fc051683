// Every foreign writer, read in every mode, equal byte for byte to what it says it has on display.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "base/text.hpp"
#include "observe/labels/labels.hpp"
#include "support/writer.hpp"

namespace vitrine::observe {
namespace {

using namespace std::chrono_literals;
using test::SlotTruth;
using test::Writer;
using test::WriterSpec;

/// A set as text, whatever the order of its labels.
std::string text_of(std::vector<std::pair<std::string, std::string>> labels,
                    const std::string& trace) {
  std::sort(labels.begin(), labels.end());
  std::string text;
  for (const auto& [key, value] : labels) text += testing::PrintToString(std::pair(key, value));
  return text + trace;
}

std::string text_of(const SlotTruth& truth) {
  return text_of(truth.labels, truth.trace ? " " + truth.trace->trace_id + "/" +
                                                 truth.trace->span_id + "/" + truth.trace->flags
                                           : "");
}

std::string text_of(const format::LabelSet& set) {
  std::vector<std::pair<std::string, std::string>> labels;
  for (const format::Label& label : set.labels) labels.emplace_back(label.key, label.value);
  std::string trace;
  if (set.trace) {
    const auto flags = set.trace->trace_flags;
    trace = " " + hex_text(set.trace->trace_id) + "/" + hex_text(set.trace->span_id) + "/" +
            (flags ? fmt::format("{:02x}", *flags) : "-");
  }
  return text_of(labels, trace);
}

/// Thread and format to text.
using Shown = std::map<std::pair<int, std::string>, std::string>;

Shown expected(const Writer& writer) {
  Shown shown;
  std::set<std::string> formats;
  for (const SlotTruth& slot : writer.slots()) {
    formats.insert(slot.format);
    shown[{slot.tid, slot.format}] = text_of(slot);
  }
  for (const test::ThreadTruth& thread : writer.threads())
    for (const std::string& format : formats) shown.try_emplace({thread.tid, format}, "");
  return shown;
}

Evidence evidence_of(Mode mode) {
  return mode == Mode::snapshot ? Evidence::proven
         : mode == Mode::ebpf   ? Evidence::sampled
                                : Evidence::stopped;
}

void add(const Snapshot& snapshot, Mode mode, Shown& shown) {
  for (const ThreadLabels& thread : snapshot.threads) {
    // A page may be out when a sample is taken; it is in for the next.
    if (mode == Mode::ebpf && thread.evidence == Evidence::unproven) continue;
    EXPECT_EQ(thread.evidence, evidence_of(mode)) << thread.tid;
    ASSERT_TRUE(thread.set) << thread.tid << ": " << thread.set.error().message;
    EXPECT_THAT(thread.set->truncated, testing::IsEmpty());
    EXPECT_THAT(thread.set->defects, testing::IsEmpty());
    shown[{thread.tid, std::string(format::name(thread.format))}] = text_of(*thread.set);
  }
}

class Modes : public testing::TestWithParam<std::tuple<WriterSpec, Mode>> {};

TEST_P(Modes, ReadWhatIsOnDisplay) {
  const auto& [spec, mode] = GetParam();
  Writer writer = Writer::start(spec);
  LabelOptions options;
  options.mode = mode;
  options.sample_hz = 999;
  options.stop_deadline = 2s;  // a busy machine
  auto reader = LabelReader::open(writer.pid(), options);
  ASSERT_TRUE(reader) << reader.error().message;

  const Shown truth = expected(writer);
  if (mode == Mode::ebpf) writer.command("spin 30000");
  Shown shown;
  // Sampling sees who runs; on a busy machine that takes its time.
  for (int window = 0; window < (mode == Mode::ebpf ? 200 : 1) && shown.size() < truth.size();
       ++window) {
    auto snapshot = (*reader)->read(50ms);
    ASSERT_TRUE(snapshot) << snapshot.error().message;
    add(*snapshot, mode, shown);
  }
  EXPECT_EQ(shown, truth);
}

std::vector<WriterSpec> all_rows() {
  auto rows = test::location_matrix();
  const auto formats = test::format_matrix();
  rows.insert(rows.end(), formats.begin(), formats.end());
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Writers, Modes,
                         testing::Combine(testing::ValuesIn(all_rows()),
                                          testing::Values(Mode::snapshot, Mode::ebpf,
                                                          Mode::ptrace)),
                         [](const auto& row) {
                           return std::get<0>(row.param).name + "_" +
                                  std::string(name(std::get<1>(row.param)));
                         });

}  // namespace
}  // namespace vitrine::observe
