// What was added up so far: again and again on a terminal, and once at the end.
#pragma once

#include <chrono>

#include "cli/live_text.hpp"
#include "cli/text.hpp"
#include "query/reduction.hpp"

namespace vitrine::cli {

class ReductionView {
 public:
  explicit ReductionView(bool json);

  /// Whether a table is wanted now: the output is a terminal, and the last one is old enough.
  bool is_due() const;

  /// False when nobody reads any more.
  [[nodiscard]] bool refresh(const query::ReductionTable& table);
  [[nodiscard]] bool finish(const query::ReductionTable& table);

  /// Something else was printed on the terminal: the next table goes below it.
  void leave_as_is() { live_.leave(); }

 private:
  std::string text(const query::ReductionTable& table, std::size_t most_rows) const;

  bool json_;
  bool terminal_;
  Style style_;
  LiveText live_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace vitrine::cli
