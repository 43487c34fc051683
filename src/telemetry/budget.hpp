// LabelBudget: how many values of a label, and how many series, an engine is given. Those that come first
// keep their own, as what counts up may not shrink; all others are "__other__".
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "telemetry/metrics.hpp"

namespace vitrine::telemetry {

inline constexpr const char* other_value = "__other__";
/// Of a value with series of its own: engines refuse longer ones, and so many of them fill a request.
inline constexpr std::size_t max_value_bytes = 1024;

class LabelBudget {
 public:
  LabelBudget(std::size_t max_values, std::size_t max_series)
      : max_values_(max_values), max_series_(max_series) {}

  /// Begins to look at a table: folded_values() and folded_series() are of this one.
  void begin();

  /// Folds the values of attributes from `first` on, as texts, that are too long or beyond the budget of
  /// their key. False: there are too many series for one more.
  bool take(Attributes& attributes, std::size_t first);

  /// Series of the table that are not there as they are.
  [[nodiscard]] std::size_t folded_series() const { return folded_series_; }
  /// A gauge: how many values of each key are in __other__. A table has at most so many rows.
  [[nodiscard]] Metric folded_values(std::string name, std::string text_name) const;

 private:
  std::size_t max_values_, max_series_;
  std::map<std::string, std::set<std::string>> values_;  ///< with series of their own, by key
  std::set<std::string> series_;                         ///< by their encoded attributes
  std::map<std::string, std::set<std::string>> folded_;  ///< of this table
  std::size_t folded_series_ = 0;
};

}  // namespace vitrine::telemetry
