// A program that fires a probe, under labels, when told to: "run N PAUSE_NS" fires it N times, at
// most one in PAUSE_NS, and tells the nanoseconds a fire. The probe is systemtap's, for all tracers.
#include <sys/sdt.h>
#include <time.h>

#include <cstdio>
#include <vitrine/labels.hpp>

extern "C" const char bench_site[];

namespace {

/// One site, its arguments where the call puts them.
[[gnu::noinline, gnu::noclone]] void fire(long number, const char* item) {
  asm volatile(".globl bench_site\nbench_site:");
  STAP_PROBE2(bench, fire, number, item);
}

double now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

/// In CPU time, which others on the machine do not add to; with pauses, in real time.
double run(long count, long pause_ns) {
  const clockid_t clock = pause_ns == 0 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  const double begin = now(clock);
  for (long i = 0; i < count; ++i) {
    fire(i, "kettle");
    const double next = begin + static_cast<double>((i + 1) * pause_ns);
    while (pause_ns != 0 && now(clock) < next) {
    }
  }
  return (now(clock) - begin) / static_cast<double>(count);
}

}  // namespace

int main() {
  namespace labels = vitrine::labels;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  static const labels::Key tenant{"tenant"}, route{"route"}, request{"request"};
  const labels::Scope scope{{tenant, "acme"}, {route, "/orders"}, {request, "r-1042"}};
  std::printf("ready %p\n", static_cast<const void*>(bench_site));
  long count = 0, pause_ns = 0;
  while (std::scanf(" run %ld %ld", &count, &pause_ns) == 2)
    std::printf("%.1f\n", run(count, pause_ns));
}
