// LabelTexts: label sets as text, each made once.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

#include "observe/trace.hpp"

namespace vitrine::cli {

class LabelTexts {
 public:
  /// What `make(set)` says of the event's labels; good until the next call.
  template <class Make>
  const std::string& of(const observe::TraceEvent& event, Make make) {
    if (event.labels_id == 0) return once_ = make(*event.labels);
    if (const auto known = kept_.find(event.labels_id); known != kept_.end()) return known->second;
    if (kept_.size() >= most) kept_.clear();
    return kept_.emplace(event.labels_id, make(*event.labels)).first->second;
  }

 private:
  static constexpr std::size_t most = 4096;  // sets that threads have in force at about one time

  std::unordered_map<std::uint64_t, std::string> kept_;
  std::string once_;
};

}  // namespace vitrine::cli
