#include "cli/histogram_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace vitrine::cli {
namespace {

constexpr std::size_t most_lines = 20;
constexpr std::size_t widest_bar = 40;

/// The line of a bucket of magnitudes when each power of two has 8 >> `merged` lines: those below 8
/// have a bucket a value, so that there a power of two has fewer than 8.
std::int32_t line_of_magnitude(std::int32_t bucket, int merged) {
  std::int32_t line = 0;
  std::int32_t first = 0;    // bucket of the power of two that is looked at
  std::int32_t buckets = 1;  // in it: 0, then 1, 2-3, 4-7, 8-15, and always 8 from there
  const std::int32_t lines = 8 >> merged;
  while (bucket >= first + buckets) {
    line += std::min(buckets, lines);
    first += buckets;
    buckets = first == 1 ? 1 : std::min(first, 8);
  }
  return line + (bucket - first) * std::min(buckets, lines) / buckets;
}

std::int32_t line_of(std::int32_t bucket, int merged) {
  return bucket < 0 ? -1 - line_of_magnitude(-1 - bucket, merged)
                    : line_of_magnitude(bucket, merged);
}

}  // namespace

std::vector<HistogramLine> histogram_lines(const query::Histogram& histogram) {
  const auto& buckets = histogram.buckets();
  if (buckets.empty()) return {};
  const std::int32_t first = buckets.front().index;
  const std::int32_t last = buckets.back().index;
  int merged = 0;
  while (merged < 3 &&
         static_cast<std::size_t>(line_of(last, merged) - line_of(first, merged)) >= most_lines)
    ++merged;
  std::vector<HistogramLine> lines;
  std::int32_t current = 0;
  auto filled = buckets.begin();
  // Lines are whole: they begin and end with a power of two or a part of it.
  std::int32_t from = first;
  while (from - 1 != -1 && line_of(from - 1, merged) == line_of(first, merged)) --from;
  for (std::int32_t bucket = from; bucket <= last || line_of(bucket, merged) == current; ++bucket) {
    if (bucket == -1) continue;  // of the magnitude 0, which is not negative
    const query::BucketRange range = query::range_of(bucket);
    const std::int32_t line = line_of(bucket, merged);
    if (lines.empty() || line != current) {
      if (bucket > last) break;
      lines.push_back({range.low, range.high, 0});
      current = line;
    }
    lines.back().high = range.high;
    if (filled != buckets.end() && filled->index == bucket) lines.back().count += (filled++)->count;
    if (bucket >= 495) break;
  }
  return lines;
}

std::string bar(double share, std::size_t columns, bool utf8) {
  const double filled = std::clamp(share, 0.0, 1.0) * static_cast<double>(columns);
  std::string out;
  if (!utf8) {
    const auto marks = static_cast<std::size_t>(std::lround(filled));
    return std::string(share > 0 ? std::max<std::size_t>(marks, 1) : 0, '#');
  }
  static constexpr const char* eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  auto parts = static_cast<std::size_t>(std::lround(filled * 8));
  if (share > 0) parts = std::max<std::size_t>(parts, 1);
  for (std::size_t i = 0; i < parts / 8; ++i) out += "█";
  return out + eighths[parts % 8];
}

std::string histogram_text(const query::Histogram& histogram,
                           const std::function<std::string(const query::Number&)>& value,
                           const Style& style, const BarLook& look) {
  const auto lines = histogram_lines(histogram);
  std::uint64_t most = 1;
  std::size_t low_width = 0, high_width = 0, count_width = 0;
  const auto is_single = [](const HistogramLine& line) {
    return query::compare(line.low, line.high) == 0;
  };
  const bool has_ranges = !std::all_of(lines.begin(), lines.end(), is_single);
  for (const HistogramLine& line : lines) {
    most = std::max(most, line.count);
    low_width = std::max(low_width, width(value(line.low)));
    if (has_ranges) high_width = std::max(high_width, 3 + width(value(line.high)));
    count_width = std::max(count_width, std::to_string(line.count).size());
  }
  const std::size_t beside = low_width + high_width + count_width + 8;
  const std::size_t columns =
      std::clamp<std::size_t>(look.columns > beside ? look.columns - beside : 0, 8, widest_bar);
  const auto right = [](const std::string& text, std::size_t columns_of_it) {
    const std::size_t have = width(text);
    return std::string(columns_of_it > have ? columns_of_it - have : 0, ' ') + text;
  };
  std::string out;
  std::size_t empty = 0;  // a long gap is one line
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const HistogramLine& line = lines[i];
    empty = line.count == 0 ? empty + 1 : 0;
    const bool in_gap = empty > 1 && i + 1 < lines.size() && lines[i + 1].count == 0;
    if (in_gap) {
      if (empty == 2) out += right(look.utf8 ? "…" : "...", 4 + low_width) + '\n';
      continue;
    }
    std::string range = right(value(line.low), low_width);
    if (is_single(line)) {
      range += std::string(high_width, ' ');
    } else {
      range += (look.utf8 ? " – " : " - ") + right(value(line.high), high_width - 3);
    }
    const std::string filled =
        bar(static_cast<double>(line.count) / static_cast<double>(most), columns, look.utf8);
    out += fmt::format("    {}  {}{}  {}\n", range, style.cyan(filled),
                       std::string(columns - std::min(columns, width(filled)), ' '),
                       right(std::to_string(line.count), count_width));
  }
  return out;
}

}  // namespace vitrine::cli
