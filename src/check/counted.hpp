// Counted: a question asked of many things, answered by how many did not hold and the first of them.
#pragma once

#include <fmt/format.h>

#include <string>

#include "check/rule.hpp"

namespace vitrine::check {

class Counted {
 public:
  /// `things`: what they are, many: "sites".
  explicit Counted(const char* things) : things_(things) {}

  void good() { ++all_; }
  void bad(std::string what) {
    ++all_;
    if (bad_++ == 0) first_ = std::move(what);
  }

  /// Holds when none was bad; does not apply when there was nothing to ask.
  [[nodiscard]] Answer answer() const {
    if (all_ == 0) return does_not_apply(fmt::format("the file has no {}", things_));
    if (bad_ == 0) return holds(fmt::format("{} {}", all_, things_));
    return fails(fmt::format("{} of {} {}; the first: {}", bad_, all_, things_, first_));
  }

 private:
  const char* things_;
  std::size_t all_ = 0, bad_ = 0;
  std::string first_;
};

}  // namespace vitrine::check
