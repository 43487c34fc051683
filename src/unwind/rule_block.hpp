// RuleBlock: the rules of neighbouring code of a file, as they are handed to who unwinds.
#pragma once

#include <vector>

#include "unwind/rule.hpp"

namespace vitrine::unwind {

/// Addresses with one rule.
struct RuleSpan {
  std::uint32_t start = 0;  ///< from RuleBlock::start
  std::uint32_t size = 0;
  Rule rule;

  bool operator==(const RuleSpan&) const = default;
};

struct RuleBlock {
  Address start = 0;            ///< in the file's own address space
  Address end = 0;              ///< one past the last
  std::vector<RuleSpan> spans;  ///< by start; what is between them is to be asked for by itself

  /// Null: no span has it.
  [[nodiscard]] const Rule* find(Address address) const;

  /// Spans in order, within the block, with rules that can be applied. What comes from another
  /// process may be otherwise.
  [[nodiscard]] bool is_sound() const;

  bool operator==(const RuleBlock&) const = default;
};

}  // namespace vitrine::unwind
