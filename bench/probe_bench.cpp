// What a probe costs where it stands, by its header: ours beside systemtap's and beside no probe at all,
// in one run. Then the same probe of both headers, traced by the same tracer (a perf uprobe that counts).
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include "observe/probes/probes.hpp"
#include "probe_loops.hpp"

namespace {

using bench::Loop;
using bench::Loops;

BENCH_LOOP(no_probe, )

const bench::Values values{1, 2, -3, "four", 5.5, "a text"};

void run(benchmark::State& state, Loop loop) {
  std::uint64_t x = 1;
  for (auto _ : state) benchmark::DoNotOptimize(x = loop(x, values));
  state.SetItemsProcessed(state.iterations() * bench::turns);
}

double least(const std::vector<double>& all) {
  return *std::min_element(all.begin(), all.end());
}

/// Registers all loops of a header under "header/what/arguments".
void add(const Loops& loops) {
  const auto one = [&](const std::string& what, Loop loop) {
    if (loop == nullptr) return;
    benchmark::RegisterBenchmark((loops.name + ("/" + what)).c_str(), run, loop)
        ->ComputeStatistics("best", least);
  };
  for (std::size_t i = 0; i < 6; ++i) one("unguarded/" + std::to_string(i), loops.plain[i]);
  for (std::size_t i = 0; i < 6; ++i) one("guarded/" + std::to_string(i), loops.guarded[i]);
  one("unguarded/costly", loops.plain_costly);
  one("guarded/costly", loops.guarded_costly);
  one("guarded/typed", loops.typed);
}

/// Keeps the best of each: what the machine does besides only adds.
class Best : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const auto& run : runs)
      if (run.aggregate_name == "best")
        nanoseconds_[run.run_name.function_name] = run.GetAdjustedCPUTime() / bench::turns;
  }

  void table() const {
    const double none = nanoseconds_.at("no probe");
    fmt::print("\nA probe that nobody traces, ns (no probe: a turn of {:.3f} ns)\n", none);
    fmt::print("{:<24}{:>12}{:>12}\n", "", "vitrine", "systemtap");
    for (const auto& [name, ns] : nanoseconds_) {
      if (!name.starts_with("vitrine/")) continue;
      const auto what = name.substr(8);
      const auto other = nanoseconds_.find("systemtap/" + what);
      fmt::print("{:<24}{:>+12.3f}{:>12}\n", what, ns - none,
                 other == nanoseconds_.end() ? "-" : fmt::format("{:+.3f}", other->second - none));
    }
  }

 private:
  std::map<std::string, double> nanoseconds_;
};

/// A perf uprobe that counts in this process. -1: not permitted.
int count_fires(const std::string& path, std::uint64_t offset) {
  std::uint32_t type = 0;
  if (!(std::ifstream("/sys/bus/event_source/devices/uprobe/type") >> type)) return -1;
  perf_event_attr attr{};
  attr.size = sizeof attr;
  attr.type = type;
  attr.config1 = reinterpret_cast<std::uint64_t>(path.c_str());
  attr.config2 = offset;
  return static_cast<int>(syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

double nanoseconds_a_fire(Loop loop) {
  const auto begin = std::chrono::steady_clock::now();
  constexpr int runs = 20;
  for (int i = 0; i < runs; ++i) benchmark::DoNotOptimize(loop(1, values));
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin)
             .count() /
         (runs * bench::turns);
}

/// The same probe of both headers, turn by turn, traced alike.
int traced() {
  const auto file = vitrine::observe::ProbeFiles().open("/proc/self/exe");
  if (!file) {
    fmt::print(stderr, "probe_bench: {}\n", file.error().message);
    return 1;
  }
  std::vector<int> tracers;
  for (const auto& probe : (*file)->probes) {
    if (probe.name != "traced") continue;
    for (const auto& site : probe.sites)
      tracers.push_back(count_fires("/proc/self/exe", site.file_offset.value_or(0)));
  }
  if (tracers.size() != 2 || tracers[0] < 0 || tracers[1] < 0) {
    fmt::print("\nA traced probe: not measured ({})\n",
               tracers.size() != 2 ? "its notes were not found" : std::strerror(errno));
    return tracers.size() != 2;
  }
  std::vector<double> ours, theirs;
  for (int round = 0; round < 20; ++round) {
    ours.push_back(nanoseconds_a_fire(bench::vitrine_loops.traced));
    theirs.push_back(nanoseconds_a_fire(bench::systemtap_loops.traced));
  }
  std::uint64_t fires[2]{};
  for (int i = 0; i < 2; ++i)
    if (read(tracers[static_cast<std::size_t>(i)], &fires[i], sizeof fires[i]) != sizeof fires[i])
      return 1;
  fmt::print(
      "\nA probe that a perf uprobe counts, ns a fire: vitrine {:.0f}, systemtap {:.0f}, ratio "
      "{:.2f} "
      "({} and {} fires)\n",
      least(ours), least(theirs), least(ours) / least(theirs), fires[0], fires[1]);
  for (const int tracer : tracers) close(tracer);
  return fires[0] == 0 || fires[1] == 0;
}

}  // namespace

int main(int argc, char** argv) {
  // One after another in random order, again and again: what disturbs the machine disturbs all.
  std::vector<char*> arguments(argv, argv + argc);
  std::string defaults[] = {"--benchmark_enable_random_interleaving=true",
                            "--benchmark_repetitions=20", "--benchmark_min_time=0.005",
                            "--benchmark_report_aggregates_only=true"};
  for (auto& option : defaults) arguments.insert(arguments.begin() + 1, option.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  benchmark::RegisterBenchmark("no probe", run, no_probe)->ComputeStatistics("best", least);
  add(bench::vitrine_loops);
  add(bench::systemtap_loops);
  Best best;
  benchmark::RunSpecifiedBenchmarks(&best);
  best.table();
  return traced();
}
