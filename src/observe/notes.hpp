// Notes: what could not be done, or not as asked; each is said once.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.hpp"

namespace vitrine::observe {

class Notes {
 public:
  /// Forgets those beyond limits::search_notes.
  void add(std::string text) {
    if (said_.size() < limits::search_notes && said_.insert(text).second)
      waiting_.push_back(std::move(text));
  }
  void add(std::vector<std::string> texts) {
    for (std::string& text : texts) add(std::move(text));
  }

  /// Those since the last call.
  std::vector<std::string> take() { return std::exchange(waiting_, {}); }
  [[nodiscard]] const std::vector<std::string>& waiting() const { return waiting_; }

 private:
  std::set<std::string> said_;
  std::vector<std::string> waiting_;
};

}  // namespace vitrine::observe
