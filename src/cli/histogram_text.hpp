// Histograms as bars.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/text.hpp"
#include "query/histogram.hpp"

namespace vitrine::cli {

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

}  // namespace vitrine::cli
