// Against the header of Debian's systemtap-sdt-dev. Its users write their guards by hand.
#include <sys/sdt.h>

#include "probe_loops.hpp"

namespace {

volatile unsigned short semaphore __attribute__((section(".probes")));
#define GUARDED(probe) \
  if (__builtin_expect(semaphore, 0)) probe

BENCH_LOOP(plain_0, STAP_PROBE(systemtap, plain_0))
BENCH_LOOP(plain_1, STAP_PROBE1(systemtap, plain_1, x))
BENCH_LOOP(plain_2, STAP_PROBE2(systemtap, plain_2, x, b))
BENCH_LOOP(plain_3, STAP_PROBE3(systemtap, plain_3, x, b, c))
BENCH_LOOP(plain_4, STAP_PROBE4(systemtap, plain_4, x, b, c, d))
BENCH_LOOP(plain_5, STAP_PROBE5(systemtap, plain_5, x, b, c, d, a))
BENCH_LOOP(guarded_0, GUARDED(STAP_PROBE(systemtap, guarded_0)))
BENCH_LOOP(guarded_1, GUARDED(STAP_PROBE1(systemtap, guarded_1, x)))
BENCH_LOOP(guarded_2, GUARDED(STAP_PROBE2(systemtap, guarded_2, x, b)))
BENCH_LOOP(guarded_3, GUARDED(STAP_PROBE3(systemtap, guarded_3, x, b, c)))
BENCH_LOOP(guarded_4, GUARDED(STAP_PROBE4(systemtap, guarded_4, x, b, c, d)))
BENCH_LOOP(guarded_5, GUARDED(STAP_PROBE5(systemtap, guarded_5, x, b, c, d, a)))
BENCH_LOOP(plain_costly, STAP_PROBE1(systemtap, plain_costly, bench::costly(x)))
BENCH_LOOP(guarded_costly, GUARDED(STAP_PROBE1(systemtap, guarded_costly, bench::costly(x))))
BENCH_LOOP(traced, STAP_PROBE2(systemtap, traced, x, b))

}  // namespace

const bench::Loops bench::systemtap_loops = {
    "systemtap",
    {plain_0, plain_1, plain_2, plain_3, plain_4, plain_5},
    {guarded_0, guarded_1, guarded_2, guarded_3, guarded_4, guarded_5},
    plain_costly,
    guarded_costly,
    nullptr,
    traced};
