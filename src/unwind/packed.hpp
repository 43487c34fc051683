// Structures of this layer as base/pack.hpp has them.
#pragma once

#include "base/pack.hpp"
#include "unwind/rule.hpp"

namespace vitrine::unwind {

constexpr RegisterRule::Kind last(RegisterRule::Kind) {
  return RegisterRule::Kind::expression;
}
constexpr Rule::Form last(Rule::Form) {
  return Rule::Form::outermost;
}
constexpr Rule::Source last(Rule::Source) {
  return Rule::Source::lost;
}

template <pack::Of<RegisterRule> T>
auto fields(T& rule) {
  auto& [kind, size, value] = rule;
  return std::tie(kind, size, value);
}

template <pack::Of<Row> T>
auto fields(T& row) {
  auto& [cfa, cfa_offset, registers, is_signal, expressions] = row;
  return std::tie(cfa, cfa_offset, registers, is_signal, expressions);
}

template <pack::Of<Rule> T>
auto fields(T& rule) {
  auto& [form, cfa_register, frame_pointer, return_address, cfa_offset, frame_pointer_offset,
         return_address_offset] = rule;
  return std::tie(form, cfa_register, frame_pointer, return_address, cfa_offset,
                  frame_pointer_offset, return_address_offset);
}

template <pack::Of<RuleSpan> T>
auto fields(T& span) {
  auto& [start, size, rule] = span;
  return std::tie(start, size, rule);
}

template <pack::Of<RuleBlock> T>
auto fields(T& block) {
  auto& [start, end, spans] = block;
  return std::tie(start, end, spans);
}

}  // namespace vitrine::unwind
