// Calls that their caller can end early by a flag that becomes true.
//
// One rule for all of them. What opens something looks at the flag first, and after each step that takes long (a program
// that is loaded, a process that is searched), and fails with `interrupted`: there is nothing to work with. What
// collects (poll) returns early, with what it has.
#pragma once

#include <atomic>

#include "base/result.hpp"

namespace vitrine {

/// Errors: interrupted (`stop` is true; null: it never is). `work`: "the trace was", for the message.
inline Result<void> require_not_stopped(const std::atomic<bool>* stop, const char* work) {
  if (stop == nullptr || !stop->load()) return {};
  return fail(ErrorCode::interrupted, std::string(work) + " was stopped before it began");
}

}  // namespace vitrine
