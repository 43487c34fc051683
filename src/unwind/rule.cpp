#include "unwind/rule.hpp"

#include <algorithm>
#include <limits>

namespace vitrine::unwind {
namespace {

using Kind = RegisterRule::Kind;

constexpr bool fits(std::int64_t value) {
  return value >= std::numeric_limits<std::int32_t>::min() &&
         value <= std::numeric_limits<std::int32_t>::max();
}

/// A register's rule as a source and an offset; false: it is neither.
bool compact(const RegisterRule& rule, Rule::Source& source, std::int32_t& offset) {
  switch (rule.kind) {
    case Kind::unspecified:
    case Kind::same:
      source = Rule::Source::same;
      return true;
    case Kind::undefined:
      source = Rule::Source::lost;
      return true;
    case Kind::at_cfa:
      source = Rule::Source::at_cfa;
      offset = static_cast<std::int32_t>(rule.value);
      return fits(rule.value);
    default:
      return false;
  }
}

bool is_sound(const RegisterRule& rule, const Row& row) {
  if (rule.kind != Kind::expression && rule.kind != Kind::at_expression) return true;
  return rule.value >= 0 && static_cast<std::uint64_t>(rule.value) <= row.expressions.size() &&
         rule.size <= row.expressions.size() - static_cast<std::uint64_t>(rule.value);
}

}  // namespace

bool is_sound(const Rule& rule) {
  return rule.cfa_register < register_count;
}

bool is_sound(const Row& row) {
  return is_sound(row.cfa, row) &&
         std::ranges::all_of(row.registers,
                             [&](const RegisterRule& rule) { return is_sound(rule, row); });
}

Rule compact(const Row& row, Machine machine) {
  const Roles roles = roles_of(machine);
  Rule rule;
  rule.form = Rule::Form::row;
  if (row.registers[roles.result].kind == Kind::undefined) {
    rule.form = Rule::Form::outermost;
    return rule;
  }
  if (row.is_signal || row.cfa.kind != Kind::in_register || !fits(row.cfa_offset) ||
      row.registers[roles.stack].kind != Kind::unspecified)
    return rule;
  rule.cfa_register = static_cast<std::uint8_t>(row.cfa.value);
  rule.cfa_offset = static_cast<std::int32_t>(row.cfa_offset);
  if (compact(row.registers[roles.frame], rule.frame_pointer, rule.frame_pointer_offset) &&
      compact(row.registers[roles.result], rule.return_address, rule.return_address_offset))
    rule.form = row.changes_stack ? Rule::Form::switched : Rule::Form::offsets;
  return rule;
}

const RuleSpan* RuleBlock::span_of(Address address) const {
  if (address < start || address >= end) return nullptr;
  const std::uint64_t at = address - start;
  const auto after = std::upper_bound(
      spans.begin(), spans.end(), at,
      [](std::uint64_t wanted, const RuleSpan& span) { return wanted < span.start; });
  if (after == spans.begin()) return nullptr;
  const RuleSpan& span = *std::prev(after);
  return at - span.start < span.size ? &span : nullptr;
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
