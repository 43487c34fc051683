#include "unwind/code_map.hpp"

#include <algorithm>

namespace vitrine::unwind {

CodeMap::CodeMap(std::vector<Region> regions) {
  std::stable_sort(regions.begin(), regions.end(),
                   [](const Region& a, const Region& b) { return a.start < b.start; });
  Address end = 0;
  for (Region& region : regions) {
    region.start = std::max(region.start, end);
    if (region.start >= region.end) continue;
    end = region.end;
    regions_.push_back(std::move(region));
  }
}

std::uint32_t CodeMap::find(Address address) const {
  const auto after =
      std::upper_bound(regions_.begin(), regions_.end(), address,
                       [](Address wanted, const Region& region) { return wanted < region.start; });
  if (after == regions_.begin() || address >= std::prev(after)->end) return no_region;
  return static_cast<std::uint32_t>(std::prev(after) - regions_.begin());
}

}  // namespace vitrine::unwind
