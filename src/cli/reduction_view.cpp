#include "cli/reduction_view.hpp"

#include <unistd.h>

#include <algorithm>

#include "cli/json.hpp"
#include "cli/reduction_json.hpp"
#include "cli/reduction_text.hpp"
#include "cli/units.hpp"

namespace vitrine::cli {
namespace {

constexpr std::chrono::milliseconds interval{1000};

}  // namespace

ReductionView::ReductionView(bool json)
    : json_(json),
      terminal_(::isatty(STDOUT_FILENO) == 1),
      style_(Style::of_stdout()),
      next_(std::chrono::steady_clock::now() + interval) {}

bool ReductionView::is_due() const {
  return terminal_ && !json_ && std::chrono::steady_clock::now() >= next_;
}

std::string ReductionView::text(const query::ReductionTable& table, std::size_t most_rows) const {
  return reduction_text(
      table, style_,
      {.utf8 = shows_utf8(), .columns = terminal_size().columns, .most_rows = most_rows});
}

bool ReductionView::refresh(const query::ReductionTable& table) {
  next_ = std::chrono::steady_clock::now() + interval;
  // A head line and some remarks beside the rows; histograms are cut by the terminal's height.
  const std::size_t lines = terminal_size().lines;
  return live_.show(text(table, std::max<std::size_t>(lines, 8) - 6));
}

bool ReductionView::finish(const query::ReductionTable& table) {
  if (!json_) return live_.finish(text(table, table.rows.size()));
  const auto objects = to_json(table);
  return std::all_of(objects.begin(), objects.end(),
                     [](const Json& object) { return print_json(object); });
}

}  // namespace vitrine::cli
