// Generations of rows that follow one another where intervals end (bpf/wire/rows.h, docs/essays/rows.md): all
// interleavings of programs that sample with the reader that ends intervals.
//
// The model has each look at memory, and each change of it, as a step. A rule that is left out must be found.
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

#include "all_states.hpp"
#include "bpf/wire/rows.h"

namespace vitrine::bpf {
namespace {

constexpr int samples_each = 2;
constexpr unsigned intervals = 3;

/// What may be done wrong.
struct Rules {
  bool in_one_word = true;         ///< the boundary, and the generation that begins there
  bool waits_after_reset = true;   ///< for programs under way: when none sees the boundary any more
  bool waits_for_programs = true;  ///< before the old half is given up
};

struct Program {
  enum class At { idle, timed, has_generation, has_number, has_boundary } at = At::idle;
  int samples_left = samples_each;
  unsigned time = 0;        ///< of its sample
  unsigned generation = 0;  ///< as it was read
  unsigned number = 0;      ///< the boundary's, where that is in a word of its own
  __u64 boundary = 0;
  bool saw_all = false;  ///< the boundary was there before its first look, and is since
  auto operator<=>(const Program&) const = default;
};

/// Everything that a step depends on.
struct State {
  unsigned now = 1;
  unsigned generation = 1, first_kept = 1;
  unsigned number = 0;
  __u64 boundary = 0;
  int reader = 0;                              ///< its step
  unsigned waited_for = 0;                     ///< programs that were under way, as bits
  std::array<unsigned, intervals + 2> ends{};  ///< of generations; 0: not ended yet
  std::array<Program, 2> programs;
  bool failed = false;
  auto operator<=>(const State&) const = default;
};

class Model {
 public:
  explicit Model(Rules rules) : rules_(rules) {}

  /// Whether each sample goes to a generation that is kept and has its time.
  bool holds() {
    return visit_all_states(seen_, [this](const State& state, std::vector<State>& open) {
      if (state.failed) return false;
      for (unsigned n = 0; n < state.programs.size(); ++n) {
        if (state.programs[n].samples_left == 0) continue;
        // A wait may have begun before the interval did.
        const bool begins = state.programs[n].at == Program::At::idle;
        for (const bool is_old : {false, true}) {
          if (is_old && !begins) continue;
          State next = state;
          step_program(next, n, is_old);
          open.push_back(next);
        }
      }
      if (state.generation > intervals && state.reader == 0) return true;
      State next = state;
      if (step_reader(next)) open.push_back(next);
      return true;
    });
  }
  [[nodiscard]] std::size_t states() const { return seen_.size(); }

 private:
  void step_program(State& state, unsigned n, bool is_old) const {
    Program& program = state.programs[n];
    switch (program.at) {
      case Program::At::idle:
        program.time = is_old ? state.ends[state.first_kept - 1] / 2 : state.now++;
        program.at = Program::At::timed;
        break;
      case Program::At::timed:
        program.generation = state.generation;
        program.saw_all = state.boundary != 0;
        program.at = rules_.in_one_word ? Program::At::has_number : Program::At::has_generation;
        break;
      case Program::At::has_generation:
        program.number = state.number;
        program.at = Program::At::has_number;
        break;
      case Program::At::has_number:
        program.boundary = state.boundary;
        program.saw_all = program.saw_all && state.boundary != 0;
        program.at = Program::At::has_boundary;
        break;
      case Program::At::has_boundary: {
        add(state, program);
        state.waited_for &= ~(1U << n);
        program = {.samples_left = program.samples_left - 1};
        break;
      }
    }
  }

  void add(State& state, const Program& program) const {
    unsigned into = vitrine_row_generation(program.generation, program.boundary, program.time);
    if (!rules_.in_one_word)
      into = program.generation - (program.generation == program.number &&
                                   program.time < program.boundary >> VITRINE_ROW_BOUNDARY_BITS);
    if (into < state.first_kept || into > state.generation ||
        (state.ends[into] != 0 && program.time >= state.ends[into]) ||
        (program.saw_all && into == state.generation && program.time < state.ends[into - 1]))
      state.failed = true;
  }

  /// As LoadedProfiler::end_interval(). Returns whether it can go on.
  bool step_reader(State& state) const {
    enum Step { announce, raise, end, reset, wait, waiting, complete };
    const std::array steps = rules_.waits_after_reset
                                 ? std::array{announce, raise, end, reset, wait, waiting, complete}
                                 : std::array{announce, raise, end, wait, waiting, reset, complete};
    switch (steps[state.reader]) {
      case announce:
        state.number = state.generation + 1;
        break;
      case raise:
        ++state.generation;
        break;
      case end:
        state.ends[state.generation - 1] = state.now++;
        state.boundary = vitrine_row_boundary(state.ends[state.generation - 1], state.generation);
        break;
      case reset:
        state.boundary = 0;
        for (Program& program : state.programs) program.saw_all = false;
        break;
      case wait:
        for (unsigned n = 0; rules_.waits_for_programs && n < state.programs.size(); ++n)
          if (state.programs[n].at != Program::At::idle) state.waited_for |= 1U << n;
        break;
      case waiting:
        if (state.waited_for != 0) return false;
        break;
      case complete:
        state.first_kept = state.generation;
        break;
    }
    state.reader = (state.reader + 1) % static_cast<int>(steps.size());
    return true;
  }

  Rules rules_;
  std::set<State> seen_;
};

TEST(Generations, HaveSamplesOfTheirTimes) {
  Model model({});
  EXPECT_TRUE(model.holds());
  EXPECT_GT(model.states(), 10'000U);
}

TEST(Generations, AreMixedUpIfTheBoundaryIsInTwoWords) {
  EXPECT_FALSE(Model({.in_one_word = false}).holds());
}

TEST(Generations, EndTooSoonIfTheBoundaryIsSeenAfterTheWait) {
  EXPECT_FALSE(Model({.waits_after_reset = false}).holds());
}

TEST(Generations, EndTooSoonIfProgramsUnderWayAreNotWaitedFor) {
  EXPECT_FALSE(Model({.waits_for_programs = false}).holds());
}

}  // namespace
}  // namespace vitrine::bpf
