// `vitrine profile`, whole: its CPU time against that of perf, what it costs the profiled, and how
// both grow with threads and processes.
#include <bpf/bpf.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "process.hpp"
#include "support/child.hpp"

namespace {

using std::chrono::milliseconds;
using vitrine::test::Child;

[[noreturn]] void die(const std::string& why) {
  fmt::print(stderr, "profile_bench: {}\n", why);
  std::exit(1);
}

Child started(std::vector<std::string> command) {
  Child child = Child::spawn(std::move(command));
  while (true) {
    const auto line = child.read_line(std::chrono::seconds(120));
    if (!line) die("a target does not start");
    if (*line == "ready") return child;
  }
}

/// A folder for files to be written and thrown away.
struct Scratch {
  std::filesystem::path folder;
  Scratch() {
    std::string name = std::filesystem::temp_directory_path() / "profile_bench-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) die("no temporary folder");
    folder = name;
  }
  ~Scratch() { std::filesystem::remove_all(folder); }
  [[nodiscard]] std::string operator/(const std::string& name) const { return folder / name; }
};

/// Run time of the BPF programs that are loaded while it lives, as the kernel counts it.
class BpfTime {
 public:
  BpfTime() : enabled_(::bpf_enable_stats(BPF_STATS_RUN_TIME)) {
    for (__u32 id = 0; ::bpf_prog_get_next_id(id, &id) == 0;) before_[id] = 0;
    watcher_ = std::thread([this] {
      for (; !done_; std::this_thread::sleep_for(milliseconds(50))) look();
    });
  }
  ~BpfTime() { ::close(enabled_); }

  /// Milliseconds, by now; stops counting.
  double stop() {
    done_ = true;
    watcher_.join();
    double all = 0;
    for (const auto& [id, time] : times_) all += static_cast<double>(time) / 1e6;
    return all;
  }

 private:
  void look() {
    for (__u32 id = 0; ::bpf_prog_get_next_id(id, &id) == 0;) {
      if (before_.count(id) != 0) continue;
      const int program = ::bpf_prog_get_fd_by_id(id);
      if (program < 0) continue;
      bpf_prog_info info{};
      __u32 size = sizeof info;
      if (::bpf_obj_get_info_by_fd(program, &info, &size) == 0) times_[id] = info.run_time_ns;
      ::close(program);
    }
  }

  int enabled_;
  std::map<__u32, std::uint64_t> before_, times_;
  std::atomic<bool> done_{false};
  std::thread watcher_;
};

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What profiling took, all processes that did it together.
struct Spent {
  double processor = 0;  ///< milliseconds
  double in_kernel = 0;  ///< of those: BPF programs, in the time of the thread they interrupted
  long samples = 0;
  long peak = 0;  ///< KiB

  [[nodiscard]] double per_thousand() const {
    return processor * 1000 / static_cast<double>(samples);
  }
};

bench::Cost must(const std::optional<bench::Cost>& cost, const std::string& what,
                 const std::string& errors) {
  if (!cost) die(what + " failed: " + contents(errors));
  return *cost;
}

Spent by_vitrine(const bench::Words& targets, int seconds, int frequency,
                 const bench::Words& more = {}) {
  const Scratch scratch;
  const std::string errors = scratch / "errors", profile = scratch / "profile.pb.gz";
  bench::Words words = {VITRINE,      "profile",
                        "--duration", fmt::format("{}s", seconds),
                        "--freq",     std::to_string(frequency),
                        "-o",         profile};
  words.insert(words.end(), more.begin(), more.end());
  words.insert(words.end(), targets.begin(), targets.end());
  BpfTime in_kernel;
  const auto cost = must(bench::run(words, errors), "vitrine profile", errors);
  Spent spent;
  spent.in_kernel = in_kernel.stop();
  spent.processor = cost.processor + spent.in_kernel;
  spent.peak = cost.peak;
  const std::string told = contents(errors);  // "vitrine: FILE: 1234 samples on CPU …"
  if (const auto at = told.find(profile + ": "); at != std::string::npos)
    spent.samples = std::atol(told.c_str() + at + profile.size() + 2);
  if (spent.samples == 0) die("vitrine profile took no samples: " + told);
  return spent;
}

/// perf's own time in the interrupt is not in this: nothing counts it.
Spent by_perf(const std::string& target, int seconds, int frequency) {
  const Scratch scratch;
  const std::string errors = scratch / "errors", data = scratch / "perf.data";
  const auto record = must(bench::run({"perf", "record", "-e", "cpu-clock", "-F",
                                       std::to_string(frequency), "--call-graph", "dwarf", "-o",
                                       data, "-p", target, "--", "sleep", std::to_string(seconds)},
                                      errors),
                           "perf record", errors);
  Spent spent;
  const std::string told = contents(errors);  // "… (1234 samples) ]"
  if (const auto at = told.rfind('('); at != std::string::npos)
    spent.samples = std::atol(told.c_str() + at + 1);
  if (spent.samples == 0) die("perf record took no samples: " + told);
  const bench::Words words = {"perf", "script", "-i", data};
  const auto script = must(bench::run(words, errors), "perf script", errors);
  spent.processor = record.processor + script.processor;
  return spent;
}

void row(const std::string& what, const Spent& spent, double baseline = 0) {
  fmt::print("{:<44} {:>9.1f} ms {:>9}   {} samples, {:.1f} ms of it in the kernel\n", what,
             spent.per_thousand(),
             baseline > 0 ? fmt::format("{:.3f} x", spent.per_thousand() / baseline) : "",
             spent.samples, spent.in_kernel);
}

/// What beginning and reading symbols cost once is in the long run and in the short one.
Spent difference(const Spent& longer, const Spent& shorter) {
  return {longer.processor - shorter.processor, longer.in_kernel - shorter.in_kernel,
          longer.samples - shorter.samples, longer.peak};
}

/// A long run and a short one.
struct Runs {
  Spent longer, shorter;
};

/// In all, and on top of what is done once.
void rows(const std::string& what, const Runs& runs, const Runs& baseline) {
  row(what + ", 20 s", runs.longer, baseline.longer.per_thousand());
  row("  each 1,000 samples more than in 2 s", difference(runs.longer, runs.shorter),
      difference(baseline.longer, baseline.shorter).per_thousand());
}

void against_perf(const std::string& what, const Child& load) {
  fmt::print("CPU time of 1,000 samples, all that samples and symbolises, of {}\n", what);
  const std::string pid = std::to_string(load.pid());
  const Runs perf{by_perf(pid, 20, 499), by_perf(pid, 2, 499)};
  const Runs ours{by_vitrine({pid}, 20, 499), by_vitrine({pid}, 2, 499)};
  rows("perf record --call-graph dwarf, perf script", perf, perf);
  rows("vitrine profile", ours, perf);
}

void against_perf() {
  against_perf("shallow stacks with labels", started({TENANT_LOAD, "4"}));
  Child deep = started({PROFILED_WORK});
  deep.write("deep 1000000000\n");
  against_perf("stacks of 23 frames", deep);
}

void pin(pid_t pid, int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  ::sched_setaffinity(pid, sizeof cpus, &cpus);
}

class Work {
 public:
  Work() : child_(started({PROFILED_WORK})) { pin(child_.pid(), 0); }

  [[nodiscard]] std::string pid() const { return std::to_string(child_.pid()); }

  /// Nanoseconds a piece.
  double round(const std::string& what) {
    child_.write(what + "\n");
    const auto told = child_.read_line(std::chrono::seconds(120));
    if (!told) die("the target does not answer");
    return std::stod(*told);
  }

 private:
  Child child_;
};

/// The command that profiles a process, and where it writes to.
bench::Words vitrine(const std::string& pid, const std::string& output,
                     const bench::Words& options) {
  bench::Words words = {VITRINE, "profile", pid, "-o", output};
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

/// The peer at the same rate: what an interrupt costs on this machine, with the least that is done in it.
bench::Words perf(const std::string& pid, const std::string& output, int frequency) {
  return {"perf", "record", "-e",   "cpu-clock", "-F", std::to_string(frequency),
          "-g",   "-o",     output, "-p",        pid};
}

/// Rounds with and without, in turn. The lower quartiles: what else runs on the machine can only
/// add to them.
template <typename Command>
void slowdown(const std::string& name, const std::string& what, const Command& command) {
  Work work;
  const Scratch scratch;
  constexpr int turns = 4, rounds = 8;
  std::vector<double> alone, profiled;
  for (int turn = 0; turn < turns; ++turn) {
    for (int i = 0; i < rounds; ++i) alone.push_back(work.round(what));
    Child profiler = Child::spawn(command(work.pid(), scratch / "profile"));
    pin(profiler.pid(), 1);
    std::this_thread::sleep_for(milliseconds(700));  // it has begun to sample
    for (int i = 0; i < rounds; ++i) profiled.push_back(work.round(what));
    profiler.signal(SIGINT);
    const auto status = profiler.wait(std::chrono::seconds(60));
    if (status != 130 && status != 0) die("a profiler failed: " + profiler.rest_of_errors());
  }
  const auto quartile = [](std::vector<double>& costs) {
    std::sort(costs.begin(), costs.end());
    return costs[costs.size() / 4];
  };
  const double before = quartile(alone), during = quartile(profiled);
  fmt::print("{:<44} {:>9.0f} ns {:>9} x\n", name, during, fmt::format("{:.4f}", during / before));
}

void slowdowns() {
  fmt::print("\nwhat it costs the profiled, which has a CPU of its own\n");
  for (const int frequency : {99, 999}) {
    slowdown(fmt::format("perf record -g, {} Hz: a piece of work", frequency), "run 5000",
             [&](const std::string& pid, const std::string& output) {
               return perf(pid, output, frequency);
             });
    slowdown(fmt::format("on-CPU, {} Hz: the same", frequency), "run 5000",
             [&](const std::string& pid, const std::string& output) {
               return vitrine(pid, output + ".pb.gz", {"--freq", std::to_string(frequency)});
             });
  }
  const auto off_cpu = [](bench::Words more) {
    more.insert(more.begin(), "--off-cpu");
    return [more](const std::string& pid, const std::string& output) {
      return vitrine(pid, output + ".pb.gz", more);
    };
  };
  slowdown("off-CPU: two switches of threads", "switch 5000", off_cpu({}));
  slowdown("off-CPU, --min-block 1ms: the same", "switch 5000", off_cpu({"--min-block", "1ms"}));
  slowdown("perf -g, two of 50,000 switches a second", "hop 5000",
           [](const std::string& pid, const std::string& output) {
             return bench::Words{"perf", "record", "-q",   "-e", "sched:sched_switch",
                                 "-g",   "-o",     output, "-p", pid};
           });
  slowdown("off-CPU: the same", "hop 5000", off_cpu({}));
}

void grow() {
  fmt::print("\nCPU time per 1,000 samples at 99 Hz by threads, which keep half a CPU busy\n");
  double first = 0;
  for (const int threads : {10, 100, 1'000, 10'000}) {
    const std::string count = std::to_string(threads);
    const Child load = started({WORKING_THREADS, count, count});
    const Spent spent = by_vitrine({std::to_string(load.pid())}, 5, 99);
    if (first == 0) first = spent.per_thousand();
    row(fmt::format("{} threads ({} MiB at most)", threads, spent.peak / 1024), spent, first);
  }
  fmt::print("\nand by processes of 4 threads\n");
  first = 0;
  for (const int processes : {1, 10, 100}) {
    std::vector<Child> loads;
    bench::Words pids;
    for (int n = 0; n < processes; ++n) {
      loads.push_back(started({WORKING_THREADS, "4", std::to_string(processes * 4)}));
      pids.push_back(std::to_string(loads.back().pid()));
    }
    const Spent spent = by_vitrine(pids, 5, 99);
    if (first == 0) first = spent.per_thousand();
    row(fmt::format("{} processes ({} MiB at most)", processes, spent.peak / 1024), spent, first);
  }
}

}  // namespace

int main() {
  against_perf();
  slowdowns();
  grow();
}
