// The reference model of programs_test: about what docs/essays/ownership.md says, and nothing of how it
// is done.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "publish/own_slot.hpp"

namespace vitrine::test {

/// A scope adds labels to what is below it; an attachment, a coroutine and a handle begin with a set
/// of their own.
struct Holder {
  int id;
  bool begins;
  Labels labels;
};

/// The holders of a thread or of a coroutine, the first one at the bottom.
using Stack = std::vector<Holder>;

inline Labels shown(const Stack& stack) {
  Labels all;
  for (const Holder& holder : stack) {
    if (holder.begins) all.clear();
    for (const auto& [key, value] : holder.labels) all[key] = value;
  }
  return all;
}

/// Two threads and some coroutines. A running coroutine's stack is on top of the one that runs it.
struct Model {
  struct Coroutine {
    Stack own;
    int on = -1;  ///< the thread that it runs on
  };
  Stack threads[2];             ///< of each thread, without what runs on it
  std::vector<int> running[2];  ///< coroutines, the innermost one last
  std::vector<std::optional<Coroutine>> coroutines;

  Stack& top(int thread) {
    return running[thread].empty()
               ? threads[thread]
               : coroutines[static_cast<std::size_t>(running[thread].back())]->own;
  }
  Labels on(int thread) { return shown(top(thread)); }
  void end(int holder) {
    const auto in = [&](Stack& stack) {
      stack.erase(std::remove_if(stack.begin(), stack.end(),
                                 [&](const Holder& one) { return one.id == holder; }),
                  stack.end());
    };
    for (Stack& stack : threads) in(stack);
    for (auto& coroutine : coroutines) {
      if (coroutine) in(coroutine->own);
    }
  }
};

}  // namespace vitrine::test
