#include "symbol/intervals.hpp"

#include <algorithm>
#include <queue>
#include <utility>

namespace vitrine::symbol {

void Intervals::add(Address start, Address end, std::uint32_t value, std::uint64_t priority) {
  if (start < end) added_.push_back({start, end, priority, value});
}

/// One pass over all starts and ends, with those that are open on a heap: the piece up to the next
/// of them belongs to the topmost. At most two pieces come of an interval.
void Intervals::build() {
  std::stable_sort(added_.begin(), added_.end(),
                   [](const Added& a, const Added& b) { return a.start < b.start; });
  const auto below = [this](std::size_t a, std::size_t b) {
    return std::pair(added_[a].priority, a) < std::pair(added_[b].priority, b);
  };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(below)> open(below);
  Address at = 0;
  for (std::size_t next = 0; next < added_.size() || !open.empty();) {
    if (open.empty()) at = std::max(at, added_[next].start);
    while (next < added_.size() && added_[next].start <= at) open.push(next++);
    while (!open.empty() && added_[open.top()].end <= at) open.pop();
    if (open.empty()) continue;
    const Added& top = added_[open.top()];
    const Address end = next < added_.size() ? std::min(top.end, added_[next].start) : top.end;
    if (!pieces_.empty() && pieces_.back().end == at && pieces_.back().value == top.value)
      pieces_.back().end = end;
    else
      pieces_.push_back({at, end, top.value});
    at = end;
  }
  pieces_.shrink_to_fit();
  std::vector<Added>().swap(added_);
}

std::optional<std::uint32_t> Intervals::find(Address address) const {
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), address,
                       [](Address a, const Piece& piece) { return a < piece.start; });
  if (after == pieces_.begin() || address >= (after - 1)->end) return std::nullopt;
  return (after - 1)->value;
}

}  // namespace vitrine::symbol
