// Models of programs that run at once: all states that their steps lead to.
#pragma once

#include <set>
#include <vector>

namespace vitrine::bpf {

/// Visits `State{}` and all that follow, each once. `step(state, next)`: appends those that are one step further; false:
/// the state must not be, and the visit ends. Returns whether there was none such. `seen`: those that were visited.
template <class State, class Step>
bool visit_all_states(std::set<State>& seen, Step&& step) {
  std::vector<State> open{State{}};
  while (!open.empty()) {
    const State state = open.back();
    open.pop_back();
    if (seen.insert(state).second && !step(state, open)) return false;
  }
  return true;
}

}  // namespace vitrine::bpf
