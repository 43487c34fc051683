// Reductions as text: tables and histograms.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/output/text.hpp"
#include "query/reduction.hpp"

namespace vitrine::cli {

// Histograms as bars.

/// A line of a histogram: neighbouring buckets together.
struct HistogramLine {
  query::Number low;   ///< least value
  query::Number high;  ///< largest value
  std::uint64_t count = 0;
};

/// The buckets from the first to the last that is not empty, as finely as about twenty lines can
/// show them: 8, 4, 2 or 1 to each power of two.
std::vector<HistogramLine> histogram_lines(const query::Histogram& histogram);

struct BarLook {
  bool utf8 = true;  ///< else bars are made of #
  std::size_t columns = 80;
};

/// `share` (0 to 1) of `columns`, filled from the left; never empty unless the share is 0.
std::string bar(double share, std::size_t columns, bool utf8);

/// One line a bucket: "  4.10µs – 8.19µs  ██████▌   120". `value` spells the ends of a bucket.
std::string histogram_text(const query::Histogram& histogram,
                           const std::function<std::string(const query::Number&)>& value,
                           const Style& style, const BarLook& look);

// Reductions as tables for people.

struct ReductionLook {
  bool utf8 = true;
  std::size_t columns = 80;
  std::size_t max_rows = ~std::size_t{0};  ///< the largest; a line below counts the rest
  bool continues = false;                  ///< more can follow: an empty table may fill
};

/// A table, or for histograms a head line and bars a group, then what is in no row and why. Ends
/// with a newline. `table` is sorted.
std::string reduction_text(const query::ReductionTable& table, const Style& style,
                           const ReductionLook& look);

/// One value of a group's key: `-` when it is not there, `?` when it could not be read.
std::string key_text(const query::Key& key, query::Format format = query::Format::plain,
                     std::uint8_t width = 8);

}  // namespace vitrine::cli
