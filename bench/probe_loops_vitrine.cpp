#include <vitrine/sdt.h>

#include "probe_loops.hpp"

namespace {

BENCH_LOOP(plain_0, VITRINE_PROBE(bench, plain_0))
BENCH_LOOP(plain_1, VITRINE_PROBE(bench, plain_1, x))
BENCH_LOOP(plain_2, VITRINE_PROBE(bench, plain_2, x, b))
BENCH_LOOP(plain_3, VITRINE_PROBE(bench, plain_3, x, b, c))
BENCH_LOOP(plain_4, VITRINE_PROBE(bench, plain_4, x, b, c, d))
BENCH_LOOP(plain_5, VITRINE_PROBE(bench, plain_5, x, b, c, d, a))
BENCH_LOOP(lazy_0, VITRINE_LAZY_PROBE(bench, lazy_0))
BENCH_LOOP(lazy_1, VITRINE_LAZY_PROBE(bench, lazy_1, x))
BENCH_LOOP(lazy_2, VITRINE_LAZY_PROBE(bench, lazy_2, x, b))
BENCH_LOOP(lazy_3, VITRINE_LAZY_PROBE(bench, lazy_3, x, b, c))
BENCH_LOOP(lazy_4, VITRINE_LAZY_PROBE(bench, lazy_4, x, b, c, d))
BENCH_LOOP(lazy_5, VITRINE_LAZY_PROBE(bench, lazy_5, x, b, c, d, a))
BENCH_LOOP(plain_costly, VITRINE_PROBE(bench, plain_costly, bench::costly(x)))
BENCH_LOOP(lazy_costly, VITRINE_LAZY_PROBE(bench, lazy_costly, bench::costly(x)))
BENCH_LOOP(typed, VITRINE_LAZY_TYPED_PROBE(bench, typed, (id, x), (item, text), (price, e)))
BENCH_LOOP(traced, VITRINE_PROBE(bench, traced, x, b))

}  // namespace

const bench::Loops bench::vitrine_loops = {"vitrine",
                                           {plain_0, plain_1, plain_2, plain_3, plain_4, plain_5},
                                           {lazy_0, lazy_1, lazy_2, lazy_3, lazy_4, lazy_5},
                                           plain_costly,
                                           lazy_costly,
                                           typed,
                                           traced};
