// SetBuilder: collects one thread's labels within the limits, and says what they cut.
#pragma once

#include <algorithm>
#include <string>
#include <unordered_set>

#include "format/decode.hpp"

namespace vitrine::format {

class SetBuilder {
 public:
  explicit SetBuilder(const DecodeContext& context);

  /// A pointer as it came from the target, without its tag bits.
  [[nodiscard]] Address pointer(std::uint64_t raw) const { return raw & mask_; }

  [[nodiscard]] const limits::LabelLimits& limits() const { return limits_; }
  [[nodiscard]] std::size_t size() const { return result_.set.labels.size(); }
  [[nodiscard]] bool full() const { return size() >= limits_.labels_per_set; }

  /// Counts `bytes` against the budgets of thread and snapshot. False, and noted, when they do not
  /// fit: then nothing more is taken for this thread.
  bool charge(std::size_t bytes);

  bool contains(const std::string& key);
  /// That many more labels may come, within what is allowed.
  void expect(std::size_t labels) {
    result_.set.labels.reserve(std::min(size() + labels, limits_.labels_per_set));
  }
  void add(Label label) { result_.set.labels.push_back(std::move(label)); }
  Label& label(std::size_t index) { return result_.set.labels[index]; }

  /// Notes what a limit or unreadable memory cut, or which rule the publisher broke. After a few
  /// of a kind it only counts: a hostile set must not grow the result.
  void cut(const char* what, std::string detail);
  void defect(SetRule rule, std::string text);
  void repeated() { ++result_.set.repeated; }
  void record_bytes(std::size_t bytes) { result_.set.record_bytes = bytes; }

  void trace(const TraceContext& trace);
  void ask_for_key_map() { result_.needs_key_map_refresh = true; }

  Decoded finish();

 private:
  limits::LabelLimits limits_;
  Address mask_;
  std::size_t* snapshot_left_;
  std::size_t thread_left_;
  bool out_of_bytes_ = false;
  std::size_t cuts_left_out_ = 0;
  Decoded result_;
  std::unordered_set<std::string> keys_;  // filled once a linear search would cost more
};

}  // namespace vitrine::format
