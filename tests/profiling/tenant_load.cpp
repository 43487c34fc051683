// Spends CPU time by tenant as it is told: 70 : 20 : 10 for acme, globex, initech.
//
//   tenant_load THREADS      prints "worker INDEX TID" for each, then "ready"; answers each line that
//                            it is sent with the nanoseconds spent so far: "ACME GLOBEX INITECH"
//
// By each worker's own CPU clock, so the shares hold however busy the machine is. All time spent has
// the labels `tenant` and `worker`. A tenant's turn takes some 20 ms, and within it a new span begins
// every few: its ids name the tenant and the worker, so that whoever sees them can tell whether they
// belong with the labels.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <random>
#include <string>
#include <thread>
#include <vector>
#include <vitrine/labels.hpp>

#include "profiling/span.hpp"

namespace {

namespace labels = vitrine::labels;
using std::chrono::microseconds;
using std::chrono::nanoseconds;
namespace test = vitrine::test;
using test::Span;

const labels::Key tenant_key("tenant"), worker_key("worker");
std::array<std::atomic<std::int64_t>, test::tenants.size()> spent;

nanoseconds processor_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + nanoseconds(now.tv_nsec);
}

volatile std::uint64_t sink;

/// `factor` makes each use code of its own, which the compiler does not fold with another's.
template <std::uint64_t factor>
[[gnu::always_inline]] inline void work_until(nanoseconds end) {
  std::uint64_t hash = sink;
  while (processor_time() < end)
    for (int i = 0; i < 20'000; ++i) hash = hash * factor + 7;
  sink = hash;
}

[[gnu::noinline]] void work_for_acme(nanoseconds end) {
  work_until<31>(end);
}
[[gnu::noinline]] void work_for_globex(nanoseconds end) {
  work_until<33>(end);
}
[[gnu::noinline]] void work_for_initech(nanoseconds end) {
  work_until<37>(end);
}
constexpr std::array work = {work_for_acme, work_for_globex, work_for_initech};

labels::Trace trace_of(const Span& span) {
  const test::SpanIds ids = test::ids_of(span);
  return {labels::TraceId{ids.trace_id}, labels::SpanId{ids.span_id}, 1};
}

/// The tenant that is furthest behind its share.
std::size_t due(const std::array<nanoseconds, test::tenants.size()>& own) {
  std::size_t next = 0;
  for (std::size_t i = 1; i < own.size(); ++i)
    if (own[i] * test::tenants[next].share < own[next] * test::tenants[i].share) next = i;
  return next;
}

[[noreturn]] void serve(std::uint8_t worker, std::latch& started) {
  std::minstd_rand random(worker + 1U);
  std::array<nanoseconds, test::tenants.size()> own{};
  const std::string name = std::to_string(worker);
  std::printf("worker %d %d\n", worker, gettid());
  started.arrive_and_wait();
  for (std::uint32_t number = 0;;) {
    const std::size_t tenant = due(own);
    const auto begin = processor_time();
    const auto end_of_turn = begin + microseconds(10'000 + random() % 20'000);
    for (auto now = begin; now < end_of_turn; now = processor_time()) {
      const Span span{static_cast<std::uint8_t>(tenant), worker, ++number};
      const labels::Scope scope(trace_of(span),
                                {{tenant_key, test::tenants[tenant].name}, {worker_key, name}});
      work[tenant](std::min(end_of_turn, now + microseconds(2'000 + random() % 3'000)));
      const auto took = processor_time() - now;
      own[tenant] += took;
      spent[tenant] += took.count();
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc == 2 ? std::atoi(argv[1]) : 0;
  if (threads < 1 || threads > 255) return 2;
  std::latch started(threads + 1);
  for (int n = 0; n < threads; ++n)
    std::thread(serve, static_cast<std::uint8_t>(n), std::ref(started)).detach();
  started.arrive_and_wait();
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() == '\n') {
    for (const auto& nanoseconds_of_tenant : spent)
      std::printf("%lld ", static_cast<long long>(nanoseconds_of_tenant.load()));
    std::puts("");
    std::fflush(stdout);
  }
  std::_Exit(0);
}
