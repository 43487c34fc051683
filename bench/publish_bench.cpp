// What publishing labels costs, beside what it can cost at best (a store to a thread-local
// variable, through the same TLS model) and what the usual writer pays per label (two malloc, two
// free). Built twice: in an executable (static TLS), and against libcustomlabels.so.
#include <benchmark/benchmark.h>

#include <atomic>
#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <vitrine/coroutine.hpp>
#include <vitrine/labels.hpp>

#include "allocations.hpp"
#include "bare_store.hpp"

namespace {

using vitrine::labels::Key;
using vitrine::labels::Scope;

const Key tenant{"tenant"}, route{"route"}, user{"user"};

/// Values as a service has them: 512 different ones of 12 bytes, so that nothing is remembered.
struct Values {
  Values() {
    for (int i = 0; i < 512; ++i) std::snprintf(text[i], sizeof text[i], "tenant-%05d", i);
  }
  char text[512][16];
};
const Values values;

std::string_view value(unsigned i) {
  return {values.text[i % 512], 12};
}

/// Nothing in the loop may allocate.
class SteadyState {
 public:
  explicit SteadyState(benchmark::State& state) : state_(state), before_(bench::allocations()) {}
  ~SteadyState() {
    state_.counters["allocations"] = static_cast<double>(bench::allocations() - before_);
  }

 private:
  benchmark::State& state_;
  std::size_t before_;
};

void bare_store(benchmark::State& state) {
  unsigned i = 0;
  for (auto _ : state) bench::store(&values.text[i++ & 63]);
}

void two_malloc_two_free(benchmark::State& state) {
  unsigned i = 0;
  for (auto _ : state) {
    const std::string_view v = value(i++);
    auto* key = static_cast<char*>(std::malloc(6));
    std::memcpy(key, "tenant", 6);
    auto* copy = static_cast<char*>(std::malloc(v.size()));
    std::memcpy(copy, v.data(), v.size());
    benchmark::DoNotOptimize(key);
    benchmark::DoNotOptimize(copy);
    benchmark::ClobberMemory();
    std::free(key);
    std::free(copy);
  }
}

void scope_of_one(benchmark::State& state) {
  { Scope first{tenant, "first"}; }
  const SteadyState steady(state);
  unsigned i = 0;
  for (auto _ : state) Scope scope{tenant, value(i++)};
}

void scope_of_three(benchmark::State& state) {
  { Scope first{tenant, "first"}; }
  const SteadyState steady(state);
  unsigned i = 0;
  for (auto _ : state) {
    Scope scope{{tenant, value(i)}, {route, value(i + 1)}, {user, value(i + 2)}};
    ++i;
  }
}

void scope_of_one_memoised(benchmark::State& state) {
  { Scope first{tenant, "tenant-00001"}; }
  const SteadyState steady(state);
  for (auto _ : state) Scope scope{tenant, "tenant-00001"};
}

void scope_of_three_memoised(benchmark::State& state) {
  { Scope first{tenant, "first"}; }
  const SteadyState steady(state);
  for (auto _ : state)
    Scope scope{{tenant, "tenant-00001"}, {route, "/cart/items"}, {user, "user-000042"}};
}

void attach_prepared(benchmark::State& state) {
  const auto set = vitrine::labels::Set::of({{tenant, "acme"}, {route, "/cart"}});
  const SteadyState steady(state);
  for (auto _ : state) auto attached = vitrine::labels::attach(set);
}

/// One iteration is a resumption and a suspension: two hops.
void coroutine_hops(benchmark::State& state) {
  const auto set = vitrine::labels::Set::of({{tenant, "acme"}, {route, "/cart"}});
  vitrine::labels::detail::Hopper hopper(set);
  const SteadyState steady(state);
  for (auto _ : state) {
    hopper.enter();
    benchmark::ClobberMemory();
    hopper.leave();
    benchmark::ClobberMemory();
  }
}

struct Loop {
  struct promise_type : vitrine::labels::CoroutineLabels {
    Loop get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    auto initial_suspend() noexcept { return starting(std::suspend_always{}); }
    auto final_suspend() noexcept { return hop(std::suspend_always{}); }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
  };
  std::coroutine_handle<promise_type> coroutine;
};
struct PlainLoop {
  struct promise_type {
    PlainLoop get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
  };
  std::coroutine_handle<promise_type> coroutine;
};

template <class L>
L forever(const bool& stop) {
  while (!stop) co_await std::suspend_always{};
}

template <class L>
void resume_and_suspend(benchmark::State& state) {
  bool stop = false;
  L loop = forever<L>(stop);
  loop.coroutine.resume();
  const SteadyState steady(state);
  for (auto _ : state) loop.coroutine.resume();
  loop.coroutine.destroy();
}

BENCHMARK(bare_store)->Name("bare store to a thread-local");
BENCHMARK(two_malloc_two_free)->Name("two malloc, two free");
BENCHMARK(scope_of_one)->Name("scope of one, new value");
BENCHMARK(scope_of_three)->Name("scope of three, new values");
BENCHMARK(scope_of_one_memoised)->Name("scope of one, same value (memoised)");
BENCHMARK(scope_of_three_memoised)->Name("scope of three, same values (memoised)");
BENCHMARK(attach_prepared)->Name("attach a prepared set");
BENCHMARK(coroutine_hops)->Name("two hops, alone");
BENCHMARK(resume_and_suspend<PlainLoop>)->Name("plain coroutine: resume, suspend");
BENCHMARK(resume_and_suspend<Loop>)->Name("labelled coroutine: resume, suspend");

/// Keeps each time, to set them against each other at the end.
class Ratios : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      if (run.run_type == Run::RT_Iteration || run.aggregate_name == "median")
        times_.emplace_back(run.run_name.function_name, run.GetAdjustedCPUTime());
    }
  }
  void print() const {
    const double store = time_of("bare store to a thread-local");
    const double usual = time_of("two malloc, two free");
    if (store == 0 || usual == 0) return;  // filtered out: nothing to compare with
    std::printf("\n%-42s %8s %14s %24s\n", "", "ns", "x bare store", "of two malloc, two free");
    for (const auto& [name, ns] : times_)
      std::printf("%-42s %8.2f %14.1f %24.2f\n", name.c_str(), ns, ns / store, ns / usual);
    // What labels add to resuming a coroutine and suspending it again: two hops.
    const double hop = (time_of("labelled coroutine: resume, suspend") -
                        time_of("plain coroutine: resume, suspend")) /
                       2;
    std::printf("%-42s %8.2f %14.1f %24.2f\n", "hop: half of what labels add to a coroutine", hop,
                hop / store, hop / usual);
    std::printf(
        "\nWanted: a scope of one at most 0.25 of two malloc, two free; a hop at most 2 x a "
        "bare store.\n");
  }

 private:
  [[nodiscard]] double time_of(std::string_view name) const {
    for (const auto& [known, ns] : times_) {
      if (known == name) return ns;
    }
    return 0;
  }

  std::vector<std::pair<std::string, double>> times_;  // in the order in which they were run
};

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  Ratios ratios;
  benchmark::RunSpecifiedBenchmarks(&ratios);
  ratios.print();
}
