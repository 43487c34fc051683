// Logs of spans: each sample that a program has put there comes once, whole and in order.
#include "bpf/span_logs.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "all_states.hpp"

namespace vitrine::bpf {
namespace {

vitrine_span_sample span_of(std::uint64_t number) {
  vitrine_span_sample span{};
  span.time_ns = number;
  span.trace_id[0] = span.trace_id[1] = span.span_id = ~number;
  span.kind = VITRINE_SAMPLE_SPAN;
  span.generation = static_cast<std::uint32_t>(number);
  span.model = static_cast<std::uint32_t>(number) | 1;
  span.row = static_cast<std::uint32_t>(number);
  return span;
}

bool is_whole(const vitrine_span_sample& span) {
  const vitrine_span_sample wanted = span_of(span.time_ns);
  return std::memcmp(&span, &wanted, sizeof span) == 0;
}

TEST(SpanLogs, GiveEachSampleOnceWhileThreadsPut) {
  constexpr std::size_t places = 8, logs = 2;
  constexpr std::uint64_t samples = 50'000;
  std::vector<vitrine_span_place> mapped(logs * places);
  SpanLogs table(mapped, places);
  std::array<std::atomic<std::uint64_t>, logs> full{};
  std::array<std::thread, logs> programs;
  for (std::size_t log = 0; log < logs; ++log)
    programs[log] = std::thread([&, log] {
      for (std::uint64_t n = 0; n < samples; ++n) {
        const vitrine_span_sample span = span_of(n * logs + log);
        while (vitrine_span_put(&mapped[log * places + n % places], &span) == 0) {
          ++full[log];
          std::this_thread::yield();
        }
      }
    });
  std::array<std::uint64_t, logs> next{};
  std::size_t taken = 0, torn = 0, left = 0;
  while (taken < logs * samples) {
    std::this_thread::yield();
    taken += table.take([&](const vitrine_span_sample& span) {
      if (span.time_ns % 1000 == 999 && ++left % 2 == 0) return false;  // it comes again
      const std::size_t log = span.time_ns % logs;
      torn += is_whole(span) && span.time_ns / logs == next[log] ? 0 : 1;
      ++next[log];
      return true;
    });
  }
  for (std::thread& program : programs) program.join();
  EXPECT_EQ(torn, 0U);
  EXPECT_EQ(table.take([](const vitrine_span_sample&) { return true; }), 0U);
  EXPECT_GT(full[0] + full[1], 0U);
}

TEST(SpanLogs, LeaveWhatFollowsInItsLog) {
  constexpr std::size_t places = 4;
  std::vector<vitrine_span_place> mapped(2 * places);
  SpanLogs logs(mapped, places);
  const auto put = [&](std::size_t place, std::uint64_t number) {
    const vitrine_span_sample span = span_of(number);
    return vitrine_span_put(&mapped[place], &span);
  };
  for (std::uint64_t n = 0; n < places; ++n) ASSERT_EQ(put(n, n), 1);
  EXPECT_EQ(put(0, 4), 0) << "it is full";
  ASSERT_EQ(put(places, 10), 1);
  std::vector<std::uint64_t> seen;
  const auto until = [&](std::uint64_t end) {
    return logs.take([&](const vitrine_span_sample& span) {
      if (span.time_ns == end) return false;
      seen.push_back(span.time_ns);
      return true;
    });
  };
  EXPECT_EQ(until(2), 3U);
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{0, 1, 10}));
  EXPECT_EQ(put(0, 4), 1);
  EXPECT_EQ(until(99), 3U);
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{0, 1, 10, 2, 3, 4}));
}

// All interleavings of the steps by which one place is used: a load or a store each.

constexpr int words = VITRINE_SPAN_LAST_WORD + 1, rounds = 3;

/// What may be left out, to see that it is needed.
struct Rules {
  bool last_word_is_last = true, looks_if_free = true, frees_last = true;
};

struct State {
  std::array<int, words> place{};             ///< of which sample; 0: free, if it is the last
  int putting = 1, put_step = 0, gotten = 0;  ///< how far both sides are
  int get_step = 0;
  std::array<int, words> read{};
  bool failed = false;
  auto operator<=>(const State&) const = default;
};

/// The program: looks whether the place is free, then writes word after word.
bool put(State& state, const Rules& rules) {
  if (state.putting > rounds) return false;
  if (state.put_step == 0) {
    if (rules.looks_if_free && state.place[words - 1] != 0) return false;
    ++state.put_step;
    return true;
  }
  const int nth = state.put_step - 1;
  state.place[rules.last_word_is_last ? nth : words - 1 - nth] = state.putting;
  if (++state.put_step > words) {
    state.put_step = 0;
    ++state.putting;
  }
  return true;
}

/// The reader: the last word, the others, and then it frees the place.
bool get(State& state, const Rules& rules) {
  if (state.get_step == 0) {
    state.read[words - 1] = state.place[words - 1];
    if (state.read[words - 1] == 0) return false;
    if (!rules.frees_last) state.place[words - 1] = 0;
    ++state.get_step;
    return true;
  }
  if (state.get_step < words) {
    state.read[state.get_step - 1] = state.place[state.get_step - 1];
    ++state.get_step;
    return true;
  }
  if (rules.frees_last) state.place[words - 1] = 0;
  ++state.gotten;
  for (const int word : state.read) state.failed |= word != state.gotten;
  state.get_step = 0;
  return true;
}

/// Returns whether there is an order of steps in which a sample is not whole, is missing, or comes twice.
bool fails(const Rules& rules) {
  std::set<State> known;
  return !visit_all_states(known, [&](const State& state, std::vector<State>& open) {
    bool goes_on = false;
    for (const bool puts : {true, false}) {
      State next = state;
      if (!(puts ? put(next, rules) : get(next, rules))) continue;
      if (next.failed) return false;
      goes_on = true;
      open.push_back(next);
    }
    return goes_on || state.gotten == rounds;
  });
}

TEST(SpanLogs, NeedEachOfTheirRulesInSomeInterleaving) {
  EXPECT_FALSE(fails({}));
  EXPECT_TRUE(fails({.last_word_is_last = false}));
  EXPECT_TRUE(fails({.looks_if_free = false}));
  EXPECT_TRUE(fails({.frees_last = false}));
}

}  // namespace
}  // namespace vitrine::bpf
