// Works, or waits, for two tenants in turn, each time with a label set made anew.
//
//   label_turns work|wait|new|span|paced    prints "ready"; new: works, each time for another request; span: in another
//                                           span; paced: for 100 other requests a second, 6 ms for each
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vitrine/labels.hpp>

namespace {

volatile std::uint64_t sink;

[[gnu::noinline]] void work() {
  std::uint64_t hash = sink;
  for (int i = 0; i < 200'000; ++i) hash = hash * 31 + 7;
  sink = hash;
}

[[gnu::noinline]] void wait() {
  const timespec half{0, 500'000};
  nanosleep(&half, nullptr);
}

constexpr std::int64_t second_ns = 1'000'000'000;

std::int64_t now_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * second_ns + now.tv_nsec;
}

/// More than from one sample to the next at 199 Hz: each request has one, as a rule.
void work_for_6_ms() {
  const std::int64_t end = now_of(CLOCK_THREAD_CPUTIME_ID) + 6'000'000;
  while (now_of(CLOCK_THREAD_CPUTIME_ID) < end) work();
}

/// Sleeps until the next hundredth of a second after the one that it slept until before. Those that it was late for
/// follow at once, unless they are many.
void wait_for_turn() {
  constexpr std::int64_t turn_ns = second_ns / 100;
  static std::int64_t next = now_of(CLOCK_MONOTONIC);
  next = std::max(next + turn_ns, now_of(CLOCK_MONOTONIC) - second_ns);
  const timespec until{next / second_ns, next % second_ns};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  static const vitrine::labels::Key tenant("tenant"), route("route");
  constexpr std::array<std::string_view, 2> tenants{"acme", "globex"};
  const bool waits = argc == 2 && std::string_view(argv[1]) == "wait";
  const bool is_paced = argc == 2 && std::string_view(argv[1]) == "paced";
  const bool is_new = is_paced || (argc == 2 && std::string_view(argv[1]) == "new");
  const bool has_span = argc == 2 && std::string_view(argv[1]) == "span";
  static const vitrine::labels::Key request("request");
  std::puts("ready");
  std::fflush(stdout);
  for (std::size_t turn = 0;; ++turn) {
    if (is_new) {
      const std::string number = std::to_string(::getpid()) + "-" + std::to_string(turn);
      const vitrine::labels::Scope scope(
          {{tenant, tenants[turn % 2]}, {route, "/pay"}, {request, number}});
      is_paced ? work_for_6_ms() : work();
      if (is_paced) wait_for_turn();
      continue;
    }
    if (has_span) {
      vitrine::labels::Trace trace({}, {});
      trace.trace_id.bytes[0] = trace.span_id.bytes[0] = 1;
      std::memcpy(&trace.trace_id.bytes[1], &turn, sizeof turn);
      std::memcpy(&trace.span_id.bytes[1], &turn, 7);
      const vitrine::labels::Scope scope(trace, {{tenant, tenants[turn % 2]}, {route, "/pay"}});
      work();
      continue;
    }
    const vitrine::labels::Scope scope({{tenant, tenants[turn % 2]}, {route, "/pay"}});
    waits ? wait() : work();
  }
}
