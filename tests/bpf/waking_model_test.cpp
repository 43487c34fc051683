// Wakers of threads (docs/essays/rows.md): all interleavings of a thread that waits with those that wake it.
//
// The model has the kernel's steps (the state that a thread sets before it sleeps, the lock of who wakes it, its
// place in a run queue) and the programs' steps between them. A rule that is left out must be found.
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

#include "all_states.hpp"

namespace vitrine::bpf {
namespace {

constexpr int waits = 2;
constexpr int wakers = 2;
constexpr int no_one = -1;

/// What the programs may do wrong.
struct Rules {
  bool drops_first = true;         ///< the entry before goes, whatever becomes of the new one
  bool asks_for_no_sample = true;  ///< the waker's sample is kept before the waiting one's is
  bool leaves_when_put_off = true;
  bool passes_itself_over = true;
};

struct Waker {
  int step = 0;
  int wakes_left = 2;
  bool has_room = true;
  auto operator<=>(const Waker&) const = default;
};

/// Everything that a step depends on.
struct State {
  // The thread that waits.
  int step = 0, waited = 0;
  bool sleeps = false, queued = true, off = false, has_sample = false, was_put_off = false;
  int put_offs_left = 1;
  int woken_by = no_one;  ///< who has ended this wait
  // Of its entry: who wrote it, and how many sets of blocks are in use.
  int entry = no_one, blocks = 0, lock = no_one;
  bool has_lost = false;  ///< there was no room for who has ended this wait
  bool failed = false;
  std::array<Waker, wakers> wakers_;
  auto operator<=>(const State&) const = default;
};

class Model {
 public:
  explicit Model(Rules rules) : rules_(rules) {}

  /// Whether every wait has its waker, or none, and no block is lost.
  bool holds() {
    return visit_all_states(seen_, [this](const State& state, std::vector<State>& open) {
      if (state.failed) return false;
      for (const State& next : steps(state)) open.push_back(next);
      return true;
    });
  }
  [[nodiscard]] std::size_t states() const { return seen_.size(); }
  [[nodiscard]] bool has_waited() const { return known_ != 0 && unknown_ != 0; }

 private:
  /// On another CPU: the program of a waker is between the look at the state and what follows it.
  static bool is_being_written(const State& s) {
    for (const Waker& waker : s.wakers_)
      if (waker.step == 1 || waker.step == 2) return true;
    return false;
  }

  static void drop(State& s) {
    if (s.entry != no_one) --s.blocks;
    s.entry = no_one;
  }

  std::vector<State> steps(const State& state) {
    std::vector<State> out;
    step_thread(state, out);
    for (int n = 0; n < wakers; ++n) step_waker(state, n, out);
    return out;
  }

  /// It sets its state, may be put off, leaves its CPU if nothing has woken it, and comes back.
  void step_thread(const State& state, std::vector<State>& out) {
    State s = state;
    switch (s.step) {
      case 0:
        if (s.waited == waits) return;
        s.sleeps = true;
        s.woken_by = no_one;
        s.step = 1;
        out.push_back(s);
        return;
      case 1:
        if (s.put_offs_left > 0) {  // as it is
          State off = s;
          --off.put_offs_left;
          off.was_put_off = true;
          off.step = 3;
          out.push_back(off);
        }
        if (rules_.passes_itself_over == false && s.sleeps) {
          State itself = s;  // an interrupt on its CPU: without the lock
          itself.step = 4;
          out.push_back(itself);
        }
        if (!s.sleeps) {  // it has been woken: it goes on
          s.step = 0;
          ++s.waited;
          out.push_back(s);
          return;
        }
        s.queued = false;  // the scheduler takes it off its queue, and after that calls the program
        s.off = true;
        s.step = 2;
        out.push_back(s);
        return;
      case 2:
        s.has_sample = true;
        s.step = 3;
        out.push_back(s);
        return;
      case 3:
        if (!s.queued) return;
        if (s.was_put_off) {
          if (!rules_.leaves_when_put_off && s.entry != no_one) {
            // It reads the entry; what is written meanwhile is another one.
            drop(s);
            s.failed |= is_being_written(s);
          }
          s.was_put_off = false;
          s.step = 1;
          out.push_back(s);
          return;
        }
        s.failed |= s.entry != no_one && s.entry != s.woken_by;
        s.failed |= s.entry == no_one && !s.has_lost;
        s.failed |= is_being_written(s);
        (s.entry == no_one ? unknown_ : known_)++;
        drop(s);
        s.failed |= s.blocks != 0;
        s.off = s.has_sample = false;
        ++s.waited;
        s.step = 0;
        out.push_back(s);
        return;
      case 4:
        s.failed |= is_being_written(s);
        drop(s);
        s.sleeps = false;
        s.step = 1;
        out.push_back(s);
        return;
      default:
        return;
    }
  }

  /// It takes the lock, looks at the state, calls the program, and wakes the thread.
  void step_waker(const State& state, int n, std::vector<State>& out) {
    State s = state;
    Waker& its = s.wakers_[static_cast<std::size_t>(n)];
    switch (its.step) {
      case 0:
        if (its.wakes_left == 0 || s.lock != no_one) return;
        --its.wakes_left;
        s.lock = n;
        its.step = s.sleeps ? 1 : 4;
        out.push_back(s);
        return;
      case 1:
        if (rules_.drops_first) drop(s);
        its.step = 2;
        for (const bool has_room : {true, false}) {
          its.has_room = has_room;
          out.push_back(s);
        }
        return;
      case 2:
        if (its.has_room && (rules_.asks_for_no_sample || s.has_sample)) {
          drop(s);
          s.entry = n;
          ++s.blocks;
        }
        its.step = 3;
        out.push_back(s);
        return;
      case 3:
        // The scheduler waits until the thread is off its CPU, if it is leaving.
        if (!s.queued && s.off && !s.has_sample) return;
        s.sleeps = false;
        s.woken_by = n;
        s.has_lost = !its.has_room;
        s.queued = true;
        its.step = 4;
        out.push_back(s);
        return;
      case 4:
        s.lock = no_one;
        its.step = 0;
        out.push_back(s);
        return;
      default:
        return;
    }
  }

  Rules rules_;
  std::set<State> seen_;
  std::size_t known_ = 0, unknown_ = 0;
};

TEST(WakingModel, EveryWaitHasItsWakerOrNone) {
  Model model({});
  EXPECT_TRUE(model.holds());
  EXPECT_TRUE(model.has_waited());
  EXPECT_GT(model.states(), 1000u);
}

TEST(WakingModel, FindsEachRuleThatIsLeftOut) {
  EXPECT_FALSE(Model({.drops_first = false}).holds());
  EXPECT_FALSE(Model({.asks_for_no_sample = false}).holds());
  EXPECT_FALSE(Model({.leaves_when_put_off = false}).holds());
  EXPECT_FALSE(Model({.passes_itself_over = false}).holds());
}

}  // namespace
}  // namespace vitrine::bpf
