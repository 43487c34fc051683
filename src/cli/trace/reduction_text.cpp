#include "cli/trace/reduction_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "base/label_keys.hpp"
#include "cli/output/text.hpp"
#include "cli/trace/output.hpp"

namespace vitrine::cli {
namespace {

constexpr std::size_t max_lines = 20;
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
         static_cast<std::size_t>(line_of(last, merged) - line_of(first, merged)) >= max_lines)
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

namespace {

using query::Number;
using query::ReductionKind;
using query::ReductionRow;
using query::ReductionTable;

constexpr std::size_t narrowest_key = 8;  // a column of keys is never cut below
constexpr std::size_t widest_share = 20;

std::string padded(const std::string& text, std::size_t columns, bool right) {
  const std::string space(columns - std::min(columns, width(text)), ' ');
  return right ? space + text : text + space;
}

/// Rows of cells: keys to the left, numbers to the right, bars last.
class Grid {
 public:
  Grid(std::vector<std::string> keys, std::vector<std::string> numbers)
      : keys_(keys.size()), head_(std::move(keys)) {
    for (std::string& title : numbers) head_.push_back(std::move(title));
  }

  struct Row {
    std::vector<std::string> cells;
    double share = 0;                ///< length of its bar
    std::vector<std::string> below;  ///< lines of their own
  };
  void add(Row row) { rows_.push_back(std::move(row)); }

  std::string str(const Style& style, const ReductionLook& look) const {
    std::vector<std::size_t> widths;
    for (const std::string& title : head_) widths.push_back(width(title));
    for (const Row& row : rows_)
      for (std::size_t i = 0; i < row.cells.size(); ++i)
        widths[i] = std::max(widths[i], width(row.cells[i]));
    fit(widths, look.columns);
    std::size_t used = 2;
    for (const std::size_t column : widths) used += column + 2;
    const std::size_t left = look.columns > used ? look.columns - used : 0;
    const std::size_t bars = left < 4 ? 0 : std::min(left, widest_share);

    std::string out = style.dim(line(head_, widths, look)) + '\n';
    for (const Row& row : rows_) {
      std::string text = line(row.cells, widths, look);
      if (bars > 0 && row.share > 0) text += "  " + style.cyan(bar(row.share, bars, look.utf8));
      out += text + '\n';
      for (const std::string& below : row.below) out += "      " + below + '\n';
    }
    return out;
  }

 private:
  /// Takes from the widest columns of keys what the line has too much.
  void fit(std::vector<std::size_t>& widths, std::size_t columns) const {
    std::size_t used = 2;
    for (const std::size_t column : widths) used += column + 2;
    while (used > columns + 2 && keys_ > 0) {
      const auto widest =
          std::max_element(widths.begin(), widths.begin() + static_cast<std::ptrdiff_t>(keys_));
      if (*widest <= narrowest_key) break;
      --*widest;
      --used;
    }
  }

  std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                   const ReductionLook& look) const {
    std::string out = "  ";
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) out += "  ";
      out += padded(cut_to(cells[i], widths[i], look.utf8 ? "…" : "~"), widths[i], i >= keys_);
    }
    return out;
  }

  std::size_t keys_;
  std::vector<std::string> head_;
  std::vector<Row> rows_;
};

std::string upper(std::string_view title) {
  std::string out = printable(title);
  // A word of the user's becomes a heading; what is spelled otherwise stays as it is.
  const bool plain = std::all_of(out.begin(), out.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
  if (plain)
    std::transform(out.begin(), out.end(), out.begin(), [](char c) {
      return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
  return out;
}

/// The words in which numbers of this table are written.
class Spelling {
 public:
  Spelling(const ReductionTable& table, bool utf8)
      : duration_(table.kind == ReductionKind::latency || table.format == query::Format::duration),
        hex_(table.format == query::Format::hex),
        utf8_(utf8) {}

  std::string operator()(const Number& number) const {
    if (duration_) return duration_text(query::to_double(number), utf8_);
    const auto* whole = std::get_if<std::uint64_t>(&number);
    const auto* with_sign = std::get_if<std::int64_t>(&number);
    if (hex_ && whole != nullptr) return fmt::format("{:#x}", *whole);
    if (hex_ && with_sign != nullptr && *with_sign >= 0) return fmt::format("{:#x}", *with_sign);
    return number_text(number);
  }
  std::string operator()(const query::Sum& sum) const {
    const auto number = sum.number();
    if (number) return (*this)(*number);
    return duration_ ? duration_text(sum.to_double(), utf8_) : sum.text();
  }
  std::string operator()(const std::optional<Number>& number) const {
    return number ? (*this)(*number) : "-";
  }
  std::string average(const ReductionRow& row) const {
    if (row.count == 0) return "-";
    return between(row.sum.to_double() / static_cast<double>(row.count));
  }
  std::string percentile(const ReductionRow& row, double share) const {
    return between(query::percentile(row, share));
  }

 private:
  /// What lies between the values themselves: from three digits on without a fraction.
  std::string between(double value) const {
    return (*this)(Number(std::abs(value) < 100 ? value : std::round(value)));
  }

  bool duration_;
  bool hex_;
  bool utf8_;
};

std::vector<std::string> number_titles(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::count:
      return {"COUNT"};
    case ReductionKind::sum:
      return {"COUNT", "SUM", "AVG", "MIN", "MAX"};
    default:
      return {"COUNT", "AVG", "P50", "P90", "P99", "MAX"};
  }
}

std::vector<std::string> numbers(const ReductionRow& row, ReductionKind kind,
                                 const Spelling& spell) {
  const std::string count = std::to_string(row.count);
  switch (kind) {
    case ReductionKind::count:
      return {count};
    case ReductionKind::sum:
      return {count, spell(row.sum), spell.average(row), spell(row.least), spell(row.greatest)};
    default:
      return {count,
              spell.average(row),
              spell.percentile(row, 0.5),
              spell.percentile(row, 0.9),
              spell.percentile(row, 0.99),
              spell(row.greatest)};
  }
}

double weight(const ReductionRow& row, ReductionKind kind) {
  const bool by_sum = kind == ReductionKind::sum || kind == ReductionKind::latency;
  return by_sum ? row.sum.to_double() : static_cast<double>(row.count);
}

bool names_probes(const ReductionTable& table) {
  std::set<std::string_view> probes;
  for (const ReductionRow& row : table.rows) probes.insert(row.probe);
  return probes.size() > 1 || table.by.empty();
}

/// The rows that are shown: the first `most`, then the others.
std::vector<const ReductionRow*> shown_rows(const ReductionTable& table, std::size_t most) {
  std::vector<const ReductionRow*> rows;
  for (const ReductionRow& row : table.rows) {
    if (rows.size() == most) break;
    rows.push_back(&row);
  }
  if (table.others.count > 0) rows.push_back(&table.others);
  return rows;
}

std::string key_cell(const ReductionTable& table, const ReductionRow& row, std::size_t column) {
  if (column >= row.keys.size()) return "-";
  const bool has_format = column < table.by_formats.size();
  return key_text(row.keys[column], has_format ? table.by_formats[column] : query::Format::plain,
                  column < row.widths.size() ? row.widths[column] : 8);
}

/// Whether a column is printed below its rows.
bool is_below(const ReductionTable& table, std::size_t column) {
  return column < table.by_formats.size() && table.by_formats[column] == query::Format::lines;
}

std::vector<std::string> lines_below(const ReductionTable& table, const ReductionRow& row) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < row.keys.size(); ++i)
    if (const auto* list = row.keys[i] ? std::get_if<probe::ListValue>(&*row.keys[i]) : nullptr;
        list != nullptr && is_below(table, i))
      for (const std::string& item : list->items) lines.push_back(printable(item));
  return lines;
}

std::vector<std::string> keys_of(const ReductionTable& table, const ReductionRow& row,
                                 bool with_probe) {
  const bool is_rest = &row == &table.others;
  std::vector<std::string> keys;
  if (with_probe) keys.push_back(is_rest ? "(other)" : printable(row.probe));
  for (std::size_t i = 0; i < table.by.size(); ++i)
    if (!is_below(table, i))
      keys.push_back(!is_rest ? key_cell(table, row, i) : keys.empty() ? "(other)" : "");
  return keys;
}

std::string grid_text(const ReductionTable& table, const Style& style, const ReductionLook& look) {
  const bool with_probe = names_probes(table);
  std::vector<std::string> titles;
  if (with_probe) titles.push_back("PROBE");
  for (std::size_t i = 0; i < table.by.size(); ++i)
    if (!is_below(table, i)) titles.push_back(upper(table.by[i]));
  Grid grid(std::move(titles), number_titles(table.kind));
  const auto rows = shown_rows(table, look.max_rows);
  const Spelling spell(table, look.utf8);
  double most = 0;
  for (const ReductionRow* row : rows) most = std::max(most, weight(*row, table.kind));
  for (const ReductionRow* row : rows) {
    Grid::Row cells{keys_of(table, *row, with_probe), 0, lines_below(table, *row)};
    for (std::string& number : numbers(*row, table.kind, spell))
      cells.cells.push_back(std::move(number));
    if (most > 0 && rows.size() > 1) cells.share = weight(*row, table.kind) / most;
    grid.add(std::move(cells));
  }
  return grid.str(style, look);
}

std::string bars_text(const ReductionTable& table, const ReductionRow& row, const Style& style,
                      const ReductionLook& look) {
  const Spelling spell(table, look.utf8);
  return histogram_text(row.histogram, [&](const Number& number) { return spell(number); }, style,
                        {look.utf8, look.columns});
}

/// Of each group of a histogram: its name, its numbers, its bars.
std::string histograms_text(const ReductionTable& table, const Style& style,
                            const ReductionLook& look) {
  const Spelling spell(table, look.utf8);
  const bool with_probe = names_probes(table);
  std::string out;
  for (const ReductionRow* row : shown_rows(table, look.max_rows)) {
    std::string head = "  " + style.bold(printable(table.value));
    if (row == &table.others) head += " (other)";
    if (with_probe && row != &table.others) head += " of " + printable(row->probe);
    for (std::size_t i = 0; i < std::min(table.by.size(), row->keys.size()); ++i)
      if (!is_below(table, i))
        head += fmt::format("{}{}={}", i == 0 ? "  " : " ", style.cyan(delimited(table.by[i])),
                            key_cell(table, *row, i));
    out += head + '\n';
    out += style.dim(fmt::format("    count {}  avg {}  p50 {}  p90 {}  p99 {}  max {}", row->count,
                                 spell.average(*row), spell.percentile(*row, 0.5),
                                 spell.percentile(*row, 0.9), spell.percentile(*row, 0.99),
                                 spell(row->greatest))) +
           '\n';
    for (const std::string& line : lines_below(table, *row)) out += "    " + line + '\n';
    out += bars_text(table, *row, style, look);
  }
  return out;
}

std::string remarks(const ReductionTable& table, const ReductionLook& look) {
  std::string out;
  const auto add_count = [&](std::uint64_t count, std::string_view one, std::string_view rest) {
    if (count > 0) out += fmt::format("  {} {}\n", counted(count, one), rest);
  };
  const std::size_t rows = table.rows.size();
  if (rows > look.max_rows) add_count(rows - look.max_rows, "group", "not shown, each smaller");
  add_count(table.unread, "fire",
            table.kind == ReductionKind::latency ? fmt::format("in no row: {}", unread_match)
                                                 : "in no row: the aggregated value is no number, "
                                                   "could not be read, or is NaN or infinite");
  add_count(table.without_start, "end",
            "in no row: no start was seen (it came earlier, or without --match on another thread)");
  add_count(table.without_end, "start",
            "without an end: another start followed, or too many were pending");
  add_count(table.lost, "fire", "lost: the table of the kernel was full");
  add_count(table.cut_texts, "text",
            "of groups cut: only the first bytes distinguish these groups");
  add_count(table.without_text, "fire",
            "in groups printed ?: the kernel has no room for their text");
  return out;
}

}  // namespace

std::string key_text(const query::Key& key, query::Format format, std::uint8_t width) {
  if (!key) return "-";
  if (std::holds_alternative<probe::ValueError>(*key)) return "?";
  if (const auto* string = std::get_if<probe::StringValue>(&*key);
      string != nullptr && format != query::Format::brief)
    return !string->truncated && reads_like_mark(string->text) && !string->text.empty()
               ? '"' + string->text + '"'
               : delimited(string->text) + (string->truncated ? "…" : "");
  return value_text(*key, format, width);
}

std::string reduction_text(const ReductionTable& table, const Style& style,
                           const ReductionLook& look) {
  if (table.rows.empty() && table.others.count == 0) {
    std::string why = remarks(table, look);
    if (!why.empty()) return why;
    return style.dim(look.continues ? "  no probe has fired yet" : "  no probe fired") + '\n';
  }
  if (table.kind == ReductionKind::histogram)
    return histograms_text(table, style, look) + remarks(table, look);
  std::string out = grid_text(table, style, look);
  // The spread of a single latency has room below it.
  if (table.kind == ReductionKind::latency && table.rows.size() == 1)
    out += bars_text(table, table.rows[0], style, look);
  return out + remarks(table, look);
}

}  // namespace vitrine::cli
