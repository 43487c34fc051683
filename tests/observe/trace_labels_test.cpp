// Labels on fires: what the thread that fired had on display, in every format and wherever its
// publisher keeps it.
#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "observe/trace_subject.hpp"
#include "support/writer.hpp"

namespace vitrine::test {
namespace {

std::string hex_of(std::span<const std::uint8_t> id) {
  std::string out;
  for (const std::uint8_t byte : id) {
    char text[3];
    std::snprintf(text, sizeof text, "%02x", byte);
    out += text;
  }
  return out;
}

class TraceLabels : public testing::TestWithParam<WriterSpec> {};

TEST_P(TraceLabels, OfTheThreadThatFired) {
  Writer writer = Writer::start(GetParam());
  const auto trace = open_trace(of_process(writer.pid(), {"writer:spin"}));
  ASSERT_TRUE(trace);
  writer.command("spin 1");
  const std::size_t threads = writer.threads().size();
  const auto fires = collect(*trace, threads);
  ASSERT_EQ(fires.size(), threads);

  // Writers give every format of a thread labels of its own: what is shown must be theirs, all of
  // the keys, and each with the value of one of the formats.
  for (const SeenFire& fire : fires) {
    EXPECT_EQ(fire.labels_error, "");
    std::map<std::string, std::set<std::string>> expected;
    std::set<std::string> traces;
    for (const SlotTruth& slot : writer.slots()) {
      if (slot.tid != fire.tid) continue;
      for (const auto& [key, value] : slot.labels) expected[key].insert(value);
      if (slot.trace) traces.insert(slot.trace->trace_id + slot.trace->span_id);
    }
    std::set<std::string> keys;
    for (const format::Label& label : fire.labels.labels) {
      keys.insert(label.key);
      EXPECT_TRUE(expected[label.key].contains(label.value)) << label.key << "=" << label.value;
    }
    EXPECT_EQ(keys.size(), expected.size());
    const std::string none(48, '0');
    traces.erase(none);
    if (fire.labels.trace)
      EXPECT_TRUE(traces.contains(hex_of(fire.labels.trace->trace_id) +
                                  hex_of(fire.labels.trace->span_id)));
    else
      EXPECT_TRUE(traces.empty());
  }
}

std::string name_of(const testing::TestParamInfo<WriterSpec>& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); },
      '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Formats, TraceLabels, testing::ValuesIn(format_matrix()), name_of);
INSTANTIATE_TEST_SUITE_P(Locations, TraceLabels, testing::ValuesIn(location_matrix()), name_of);

}  // namespace
}  // namespace vitrine::test
