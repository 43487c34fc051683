#include "format/set_builder.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vitrine::format {
namespace {

constexpr std::size_t most_notes = 16;         // of a kind, in one set
constexpr std::size_t linear_search_max = 16;  // labels; a typical set stays below

}  // namespace

SetBuilder::SetBuilder(const DecodeContext& context)
    : limits_(limits::within_hard_caps(context.limits)),
      mask_(context.address_mask),
      snapshot_left_(context.bytes_left),
      thread_left_(limits_.bytes_per_thread) {}

bool SetBuilder::charge(std::size_t bytes) {
  if (out_of_bytes_) return false;
  const bool thread_full = bytes > thread_left_;
  if (thread_full || (snapshot_left_ && bytes > *snapshot_left_)) {
    out_of_bytes_ = true;
    cut("bytes", thread_full
                     ? fmt::format("kept {} labels: {} bytes per thread is the limit", size(),
                                   limits_.bytes_per_thread)
                     : fmt::format("kept {} labels: the snapshot's limit is reached", size()));
    return false;
  }
  thread_left_ -= bytes;
  if (snapshot_left_) *snapshot_left_ -= bytes;
  return true;
}

bool SetBuilder::contains(const std::string& key) {
  const auto& labels = result_.set.labels;
  if (labels.size() <= linear_search_max)
    return std::any_of(labels.begin(), labels.end(),
                       [&](const Label& label) { return label.key == key; });
  for (std::size_t i = keys_.size(); i < labels.size(); ++i) keys_.insert(labels[i].key);
  return keys_.count(key) != 0;
}

void SetBuilder::cut(const char* what, std::string detail) {
  if (result_.set.truncated.size() < most_notes)
    result_.set.truncated.push_back({what, std::move(detail)});
  else
    ++cuts_left_out_;
}

void SetBuilder::defect(SetRule rule, std::string text) {
  if (result_.set.defects.size() < most_notes)
    result_.set.defects.push_back({rule, std::move(text)});
  else
    ++result_.set.defects_left_out;
}

void SetBuilder::trace(const TraceContext& trace) {
  const auto zero = [](std::uint8_t byte) { return byte == 0; };
  if (std::all_of(trace.trace_id.begin(), trace.trace_id.end(), zero) &&
      std::all_of(trace.span_id.begin(), trace.span_id.end(), zero))
    return;
  result_.set.trace = trace;
}

Decoded SetBuilder::finish() {
  if (cuts_left_out_ != 0)
    result_.set.truncated.push_back({"notes", fmt::format("and {} more cuts", cuts_left_out_)});
  return std::move(result_);
}

}  // namespace vitrine::format
