// Writers that change their labels all the time: nothing that is said to be proven, serial, stopped
// or sampled may ever be torn, freed or mixed (docs/formats/custom-labels.md, "Evidence").
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "observe/labels/labels.hpp"
#include "support/child.hpp"
#include "support/without_bpf.hpp"
#include "support/writer.hpp"

namespace vitrine::observe {
namespace {

using namespace std::chrono_literals;

/// The generation that a value tells, if it is whole (tests/writers/racing.c).
std::optional<std::uint64_t> generation_of(const std::string& value) {
  if (value.size() < 32) return std::nullopt;
  const std::string digits = value.substr(0, 16);
  if (digits.find_first_not_of("0123456789abcdef") != std::string::npos) return std::nullopt;
  const std::uint64_t generation = std::stoull(digits, nullptr, 16);
  const std::string whole =
      digits + std::string(generation % 64, static_cast<char>('a' + generation % 26)) + digits;
  return value == whole ? std::optional(generation) : std::nullopt;
}

/// Empty: what the thread shows can be. Else what is wrong with it.
std::string fault_in_labels(const format::LabelSet& set, bool edited_in_place) {
  static const std::set<std::string> names{"first", "second", "third"};
  if (!set.truncated.empty()) return "cut: " + set.truncated.front().detail;
  if (!set.defects.empty()) return set.defects.front().text;
  std::set<std::uint64_t> generations;
  std::set<std::string> seen;
  for (const format::Label& label : set.labels) {
    if (names.count(label.key) == 0) return "key " + testing::PrintToString(label.key);
    const auto generation = generation_of(label.value);
    if (!generation) return "value " + testing::PrintToString(label.value);
    generations.insert(*generation);
    seen.insert(label.key);
  }
  if (edited_in_place) return {};
  if (!set.labels.empty() && seen != names) return "labels are missing";
  return generations.size() > 1 ? "labels of two generations" : "";
}

std::string fault_in_record(const format::LabelSet& set) {
  if (!set.trace) return {};
  std::array<std::uint64_t, 3> words{};
  std::memcpy(words.data(), set.trace->trace_id.data(), 16);
  std::memcpy(words.data() + 2, set.trace->span_id.data(), 8);
  const bool whole = words[0] == words[1] && words[1] == words[2] &&
                     set.trace->trace_flags == static_cast<std::uint8_t>(words[0]);
  return whole ? "" : fmt::format("ids {:x} {:x} {:x}", words[0], words[1], words[2]);
}

std::string fault_in(const ThreadLabels& thread, const std::string& pattern) {
  if (!thread.set) return thread.set.error().message;
  if (thread.format == format::Format::otel_thread_ctx_v1)
    return pattern == "record" ? fault_in_record(*thread.set) : "";
  return fault_in_labels(*thread.set, pattern == "edit");
}

struct Row {
  std::string pattern;
  long pause_ns;
  Mode mode;
  bool with_bpf = true;
};

std::string name_of(const Row& row) {
  return fmt::format("{}_{}ns_{}{}", row.pattern, row.pause_ns, std::string(name(row.mode)),
                     row.with_bpf ? "" : "_by_proc");
}

void PrintTo(const Row& row, std::ostream* out) {
  *out << name_of(row);
}

class Racing : public testing::TestWithParam<Row> {};

constexpr int threads = 6;
constexpr auto longest = 4s;

// With the rows below, at least 200,000 reads.
std::size_t reads_wanted(const Row& row) {
  return row.mode == Mode::snapshot ? 10'000 : row.mode == Mode::ptrace ? 2'000 : 200;
}

TEST_P(Racing, NothingTornIsBelieved) {
  const Row& row = GetParam();
  const std::string pause = std::to_string(row.pause_ns), count = std::to_string(threads);
  const std::vector<std::string> command =
      row.pattern == "vitrine"
          ? std::vector<std::string>{RACING_VITRINE, pause, count}
          : std::vector<std::string>{test::Writer::path("racing"), row.pattern, pause, count};
  test::Child writer = test::Child::spawn(command);
  ASSERT_EQ(writer.read_line(), "ready");

  std::optional<test::WithoutBpf> without;
  if (!row.with_bpf) without.emplace();
  LabelOptions options;
  options.mode = row.mode;
  options.sample_hz = 999;
  options.stop_deadline = 500ms;
  auto reader = LabelReader::open(writer.pid(), options);
  ASSERT_TRUE(reader) << reader.error().message;

  std::map<Evidence, std::size_t> reads, wrong;
  std::size_t all = 0;
  std::string example;
  const auto end = std::chrono::steady_clock::now() + longest;
  while (all < reads_wanted(row) && std::chrono::steady_clock::now() < end) {
    auto snapshot = (*reader)->read(100ms);
    ASSERT_TRUE(snapshot) << snapshot.error().message;
    for (const ThreadLabels& thread : snapshot->threads) {
      if (thread.tid == writer.pid()) continue;
      const std::string fault = fault_in(thread, row.pattern);
      ++all;
      ++reads[thread.evidence];
      if (fault.empty()) continue;
      ++wrong[thread.evidence];
      if (thread.evidence != Evidence::unproven) example = fault;
    }
  }
  std::string counts;
  for (const auto& [evidence, n] : reads)
    counts += fmt::format(" {} {} (wrong {})", name(evidence), n, wrong[evidence]);
  fmt::print("{}: {} reads:{}\n", name_of(row), all, counts);

  wrong.erase(Evidence::unproven);
  for (const auto& [evidence, n] : wrong)
    EXPECT_EQ(n, 0u) << name(evidence) << ", for example: " << example;
  // By /proc alone nothing can be said of a foreign writer's thread that never blocks.
  const bool provable = row.with_bpf || row.pause_ns > 0 || row.pattern == "vitrine";
  if (provable) {
    EXPECT_GT(all - reads[Evidence::unproven], 0u);
  }
}

std::vector<Row> rows() {
  std::vector<Row> all;
  for (const std::string pattern : {"edit", "swap", "ring", "record", "vitrine"})
    for (const long pause : {0L, 12'000L, 100'000L, 1'000'000L}) {
      all.push_back({pattern, pause, Mode::snapshot});
      if (pause != 12'000) all.push_back({pattern, pause, Mode::snapshot, false});
      all.push_back({pattern, pause, Mode::ptrace});
      if (pause <= 12'000) all.push_back({pattern, pause, Mode::ebpf});
    }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Writers, Racing, testing::ValuesIn(rows()),
                         [](const auto& row) { return name_of(row.param); });

// By /proc alone nothing can be said of a thread that never blocks. With a definition for each of its formats it is
// asked to stop once.
TEST(MayStop, AThreadWithTwoFormatsIsNotInItsOwnWay) {
  test::Writer writer = test::Writer::start(test::location_matrix().front());
  writer.command("spin 30000");
  const test::WithoutBpf without;
  LabelOptions options;
  options.may_stop = true;
  options.stop_deadline = 5s;
  auto reader = LabelReader::open(writer.pid(), options);
  ASSERT_TRUE(reader) << reader.error().message;
  ASSERT_EQ((*reader)->definitions().size(), 2U);
  auto snapshot = (*reader)->read(0ms);
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  std::size_t stopped = 0;
  for (const ThreadLabels& thread : snapshot->threads) {
    stopped += thread.evidence == Evidence::stopped;
    EXPECT_NE(thread.evidence, Evidence::unproven) << thread.tid << " " << name(thread.format);
  }
  EXPECT_GE(stopped, 2U);
  EXPECT_THAT(snapshot->notes, testing::Not(testing::Contains(testing::HasSubstr("traced"))));
}

}  // namespace
}  // namespace vitrine::observe
