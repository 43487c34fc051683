// RuleSource: who knows how the functions of one file are left. That is its CFI (FrameTable), read
// here or in another process.
#pragma once

#include "unwind/rule.hpp"

namespace vitrine::unwind {

class RuleSource {
 public:
  virtual ~RuleSource() = default;

  [[nodiscard]] virtual Machine machine() const = 0;

  /// The rule at one of the file's own addresses.
  virtual Rule rule(Address address) = 0;

  /// The same in full; null: there is none. Lives until the next call.
  virtual const Row* row(Address address) = 0;
};

}  // namespace vitrine::unwind
