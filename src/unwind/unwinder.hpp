// Unwinder: the calls that led to where a thread of one process was, from its registers and a copy
// of its stack.
#pragma once

#include <optional>
#include <vector>

#include "unwind/frame.hpp"
#include "unwind/rule.hpp"

namespace vitrine::unwind {

/// Keeps the rules of the code addresses it met, so that further stacks through the same calls cost
/// some nanoseconds a frame. Not thread-safe; nor are the sources that its regions share.
class Unwinder {
 public:
  explicit Unwinder(CodeMap code) : code_(std::move(code)) {}

  /// The mappings have changed.
  void replace(CodeMap code);

  [[nodiscard]] const CodeMap& code() const { return code_; }

  /// Writes the frames, innermost first, over what is in `frames`: at least that of the pc, at most
  /// limits::frames. Returns why there are no more of them.
  End unwind(const Registers& registers, const Stack& stack, std::vector<Frame>& frames);

 private:
  CodeMap code_;
  RuleCache rules_;
};

}  // namespace vitrine::unwind
