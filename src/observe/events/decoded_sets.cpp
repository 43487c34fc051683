#include "observe/events/decoded_sets.hpp"

#include <algorithm>
#include <optional>

#include "base/interner.hpp"
#include "base/text.hpp"

namespace vitrine::observe {
namespace {

constexpr std::size_t decoded_entry_bytes = 128;  // of the tables and the allocator, for one set

}  // namespace

std::size_t decoded_bytes(const format::LabelSet& set) {
  std::size_t bytes = 0;
  for (const format::Label& label : set.labels)
    bytes += sizeof label + label.key.size() + label.value.size();
  for (const format::Truncation& cut : set.truncated)
    bytes += sizeof cut + cut.what.size() + cut.detail.size();
  for (const format::Defect& defect : set.defects) bytes += sizeof defect + defect.text.size();
  return bytes;
}

void add_to(DisplayedLabels& displayed, const format::LabelSet& set) {
  displayed.lacks_keys |= std::ranges::any_of(set.defects, [](const format::Defect& defect) {
    return defect.rule == format::SetRule::key_in_map;
  });
  format::LabelSet& shown = displayed.set;
  std::optional<format::TraceContext> trace = set.trace;
  format::TraceContext in_labels;
  for (const format::Label& label : set.labels) {
    // Formats without ids of their own carry them as labels; zeros, too, which are none.
    if ((label.key == "trace_id" && parse_hex(label.value, in_labels.trace_id)) ||
        (label.key == "span_id" && parse_hex(label.value, in_labels.span_id)))
      continue;
    if (std::ranges::find(shown.labels, label.key, &format::Label::key) == shown.labels.end())
      shown.labels.push_back(label);
  }
  if (!trace && !in_labels.is_empty()) trace = in_labels;
  const bool is_better = trace && (!shown.trace || (trace->is_valid() == shown.trace->is_valid()
                                                        ? set.trace && !shown.trace->trace_flags
                                                        : trace->is_valid()));
  if (is_better) shown.trace = trace;
  shown.truncated.insert(shown.truncated.end(), set.truncated.begin(), set.truncated.end());
  shown.defects_left_out += set.defects_left_out;
  shown.defects.insert(shown.defects.end(), set.defects.begin(), set.defects.end());
}

std::size_t DecodedSets::Hash::operator()(const Keys& keys) const {
  std::size_t hash = keys.size();
  for (const Key& key : keys) hash = mix(mix(hash, key.first), key.second);
  return hash;
}

void DecodedSets::make_room(std::size_t bytes) {
  bytes += decoded_entry_bytes;
  if (bytes_ + bytes > max_bytes) clear();
  bytes_ += bytes;
}

void DecodedSets::keep(const Key& key, Set set) {
  make_room(sizeof key + sizeof set + (set ? decoded_bytes(*set) : set.error().message.size()));
  sets_.emplace(key, std::move(set));
}

const DisplayedLabels& DecodedSets::keep(const Keys& keys, DisplayedLabels labels) {
  make_room(sizeof(Keys) + keys.size() * sizeof(Key) + sizeof labels + labels.error.size() +
            decoded_bytes(labels.set));
  return events_.emplace(keys, std::move(labels)).first->second;
}

void DecodedSets::clear() {
  sets_.clear();
  events_.clear();
  bytes_ = 0;
}

}  // namespace vitrine::observe
