// Whether what was read of a writer's thread is what the writer says of it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <span>
#include <string>

#include "base/text.hpp"
#include "format/label_set.hpp"
#include "support/writer.hpp"

namespace vitrine::test {

/// Writers give every format of a thread labels of its own: what is shown must be theirs, all of the
/// keys, and each with the value of one of the formats.
inline void expect_labels_of(Writer& writer, pid_t tid, const format::LabelSet& labels) {
  std::map<std::string, std::set<std::string>> expected;
  std::set<std::string> traces;
  for (const SlotTruth& slot : writer.slots()) {
    if (slot.tid != tid) continue;
    for (const auto& [key, value] : slot.labels) expected[key].insert(value);
    if (slot.trace) traces.insert(slot.trace->trace_id + slot.trace->span_id);
  }
  std::set<std::string> keys;
  for (const format::Label& label : labels.labels) {
    keys.insert(label.key);
    EXPECT_TRUE(expected[label.key].contains(label.value)) << label.key << "=" << label.value;
  }
  EXPECT_EQ(keys.size(), expected.size());
  const std::string none(48, '0');
  traces.erase(none);
  if (labels.trace)
    EXPECT_TRUE(
        traces.contains(hex_text(labels.trace->trace_id) + hex_text(labels.trace->span_id)));
  else
    EXPECT_TRUE(traces.empty());
}

inline std::string name_of_writer(const testing::TestParamInfo<WriterSpec>& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); },
      '_');
  return name;
}

}  // namespace vitrine::test
