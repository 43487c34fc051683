// Notes: sentences for the user about what could not be done, or not as requested.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.hpp"

namespace vitrine {

class Notes {
 public:
  enum class Repeats {
    dropped,  ///< each text once until clear(); `most` bounds how many texts
    kept,     ///< `most` bounds how many texts wait for take()
  };

  Notes() = default;
  Notes(std::size_t most, Repeats repeats)
      : most_(most), keeps_repeats_(repeats == Repeats::kept) {}

  void add(std::string text) {
    if (!keeps_repeats_ && known_.contains(text)) return;
    if ((keeps_repeats_ ? waiting_.size() : known_.size()) >= most_) {
      ++excess_;
      return;
    }
    if (!keeps_repeats_) known_.insert(text);
    waiting_.push_back(std::move(text));
  }
  void add(std::vector<std::string> texts) {
    for (std::string& text : texts) add(std::move(text));
  }

  /// Those since the last call.
  std::vector<std::string> take() { return std::exchange(waiting_, {}); }
  /// How many were too many since the last call.
  std::uint64_t take_excess() { return std::exchange(excess_, 0); }
  [[nodiscard]] const std::vector<std::string>& waiting() const { return waiting_; }
  void clear() {
    known_.clear();
    waiting_.clear();
    excess_ = 0;
  }

 private:
  std::size_t most_ = limits::search_notes;
  bool keeps_repeats_ = false;
  std::set<std::string> known_;
  std::vector<std::string> waiting_;
  std::uint64_t excess_ = 0;
};

}  // namespace vitrine
