#include "unwind/rule_block.hpp"

#include <algorithm>

namespace vitrine::unwind {

const Rule* RuleBlock::find(Address address) const {
  if (address < start || address >= end) return nullptr;
  const std::uint64_t at = address - start;
  const auto after = std::upper_bound(
      spans.begin(), spans.end(), at,
      [](std::uint64_t wanted, const RuleSpan& span) { return wanted < span.start; });
  if (after == spans.begin()) return nullptr;
  const RuleSpan& span = *std::prev(after);
  return at - span.start < span.size ? &span.rule : nullptr;
}

bool RuleBlock::is_sound() const {
  if (end < start) return false;
  std::uint64_t at = 0;
  for (const RuleSpan& span : spans) {
    if (span.start < at || span.size == 0 || !unwind::is_sound(span.rule)) return false;
    at = std::uint64_t{span.start} + span.size;
  }
  return at <= end - start;
}

}  // namespace vitrine::unwind
