// What publishing labels costs, beside what it can cost at best (a store to a thread-local
// variable, through the same TLS model) and what the usual writer pays per label (two malloc, two
// free). Built twice: in an executable (static TLS), and against libcustomlabels.so.
#include <benchmark/benchmark.h>

#include <atomic>
#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
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

BENCHMARK(bare_store);
BENCHMARK(two_malloc_two_free);
BENCHMARK(scope_of_one);
BENCHMARK(scope_of_three);
BENCHMARK(scope_of_one_memoised);
BENCHMARK(scope_of_three_memoised);
BENCHMARK(attach_prepared);
BENCHMARK(coroutine_hops);
BENCHMARK(resume_and_suspend<PlainLoop>)->Name("plain_coroutine_resume_suspend");
BENCHMARK(resume_and_suspend<Loop>)->Name("labelled_coroutine_resume_suspend");

/// Keeps each time, to set them against each other at the end.
class Ratios : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      if (run.run_type == Run::RT_Iteration || run.aggregate_name == "median")
        times_[run.run_name.function_name] = run.GetAdjustedCPUTime();
    }
  }
  void print() const {
    const double store = times_.at("bare_store"), usual = times_.at("two_malloc_two_free");
    std::printf("\n%-36s %10s %14s %16s\n", "", "ns", "x bare store", "of 2 malloc+free");
    for (const auto& [name, ns] : times_)
      std::printf("%-36s %10.2f %14.1f %16.2f\n", name.c_str(), ns, ns / store, ns / usual);
    std::printf("\n%-36s %10.2f   (wanted: at most 0.25)\n", "scope of one / 2 malloc + 2 free",
                times_.at("scope_of_one") / usual);
    // What labels add to resuming a coroutine and suspending it again: two hops.
    const double added = times_.at("labelled_coroutine_resume_suspend") -
                         times_.at("plain_coroutine_resume_suspend");
    std::printf("%-36s %10.2f   (wanted: at most 2)\n", "one hop / bare store", added / 2 / store);
  }

 private:
  std::map<std::string, double> times_;
};

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  Ratios ratios;
  benchmark::RunSpecifiedBenchmarks(&ratios);
  ratios.print();
}
