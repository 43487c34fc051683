// Starts that wait for their ends (kernel/trace/reduce.bpf.h): all interleavings of threads that start and end with one
// key.
//
// The model has each look into the table, and each change of it, as a step. A rule that is left out must be found.
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

#include "all_states.hpp"

namespace vitrine::bpf {
namespace {

constexpr int threads_that_start = 2, threads_that_end = 2, times_each = 2;
constexpr int starts = threads_that_start * times_each;
constexpr int none = -1, claimed = 0;  // else the number of a start, which stands for its time
constexpr int max_tries = 2;

/// What the programs may do wrong.
struct Rules {
  bool claims = true;              ///< a start is claimed before it is deleted
  bool adds_where_none_is = true;  ///< a start replaces no other
};

struct Thread {
  int step = 0, times_left = times_each, tries_left = max_tries;
  int seen = none;  ///< in the table
  auto operator<=>(const Thread&) const = default;
};

/// Everything that a step depends on.
struct State {
  int entry = none;
  bool failed = false;
  std::array<Thread, threads_that_start + threads_that_end> threads;
  std::array<int, starts + 1> ended{}, lost{};  ///< how often each start was
  auto operator<=>(const State&) const = default;
};

class Model {
 public:
  explicit Model(Rules rules) : rules_(rules) {}

  /// Whether each start is ended, lost and counted, or still there.
  bool holds() {
    return visit_all_states(seen_, [this](const State& state, std::vector<State>& open) {
      if (state.failed) return false;
      bool is_last = true;
      for (std::size_t n = 0; n < state.threads.size(); ++n) {
        if (state.threads[n].times_left == 0) continue;
        is_last = false;
        State next = state;
        if (n < threads_that_start)
          step_start(next, next.threads[n], static_cast<int>(n));
        else
          step_end(next, next.threads[n]);
        open.push_back(next);
      }
      for (int start = 1; is_last && start <= starts; ++start)
        if (state.ended[start] + state.lost[start] + (state.entry == start) != 1) return false;
      return true;
    });
  }
  [[nodiscard]] std::size_t states() const { return seen_.size(); }

 private:
  static void finish(Thread& thread) {
    thread = {.step = 0, .times_left = thread.times_left - 1, .tries_left = max_tries};
  }

  void step_start(State& state, Thread& thread, int number) const {
    const int own = number * times_each + thread.times_left;
    if (!rules_.adds_where_none_is) {
      if (thread.step++ == 0) {
        if (state.entry > 0) ++state.lost[state.entry];
        return;
      }
      state.entry = own;
      return finish(thread);
    }
    if (thread.step == 0) {
      if (state.entry == none) {
        state.entry = own;
        return finish(thread);
      }
      thread.step = 1;
      return;
    }
    const int taken = take_away(state, thread);
    if (thread.step != 0) return;
    if (taken > 0) ++state.lost[taken];
    if (--thread.tries_left > 0) return;
    ++state.lost[own];
    finish(thread);
  }

  void step_end(State& state, Thread& thread) const {
    if (thread.step == 0) thread.step = 1;
    const int taken = take_away(state, thread);
    if (thread.step != 0) return;
    if (taken > 0) ++state.ended[taken];
    if (taken > 0 || state.entry == none || --thread.tries_left == 0) finish(thread);
  }

  /// From step 1 on, until the step is 0 again. Returns what it has taken by then.
  int take_away(State& state, Thread& thread) const {
    switch (thread.step) {
      case 1:
        thread.seen = state.entry;
        thread.step = thread.seen > 0 ? 2 : 0;
        return none;
      case 2:
        if (!rules_.claims) {
          thread.step = 3;
          return none;
        }
        if (state.entry != thread.seen) {
          thread.step = 0;
          return none;
        }
        state.entry = claimed;
        thread.step = 3;
        return none;
      default:
        thread.step = 0;
        if (state.entry == none && !rules_.claims) return none;  // another one has deleted it
        state.failed |= state.entry != (rules_.claims ? claimed : thread.seen);
        state.entry = none;
        return thread.seen;
    }
  }

  Rules rules_;
  std::set<State> seen_;
};

TEST(StartsModel, EachIsEndedOrLostOnce) {
  Model model({});
  EXPECT_TRUE(model.holds());
  EXPECT_GT(model.states(), 1000U);
}

TEST(StartsModel, NeedsEachRule) {
  EXPECT_FALSE(Model({.claims = false}).holds());
  EXPECT_FALSE(Model({.adds_where_none_is = false}).holds());
  EXPECT_FALSE(Model({.claims = false, .adds_where_none_is = false}).holds());
}

}  // namespace
}  // namespace vitrine::bpf
