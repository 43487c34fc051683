// Reading the labels of all threads: snapshot mode against ptrace, side by side in one run, and
// what ebpf mode costs.
//
// The competitor is what readers by ptrace do at their best: SEIZE, INTERRUPT, wait, the thread
// pointer, the labels by one process_vm_readv each, DETACH, thread by thread.
#include <bpf/bpf.h>
#include <dirent.h>
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "observe/labels/labels.hpp"
#include "support/child.hpp"

namespace {

using namespace vitrine;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

[[noreturn]] void die(const std::string& why) {
  fmt::print(stderr, "read_bench: {}\n", why);
  std::exit(1);
}

test::Child start(const std::string& kind, std::size_t threads, bool spin = false) {
  std::vector<std::string> command{LABELLED_THREADS, kind, std::to_string(threads)};
  if (spin) command.emplace_back("spin");
  auto child = test::Child::spawn(std::move(command));
  if (child.read_line(std::chrono::seconds(60)) != "ready") die("the target does not start");
  return child;
}

std::unique_ptr<observe::LabelReader> open(pid_t pid, observe::LabelOptions options) {
  auto reader = observe::LabelReader::open(pid, std::move(options));
  if (!reader) die(reader.error().message);
  return std::move(*reader);
}

observe::Snapshot read(observe::LabelReader& reader, milliseconds window = milliseconds(0)) {
  auto snapshot = reader.read(window);
  if (!snapshot) die(snapshot.error().message);
  return std::move(*snapshot);
}

std::vector<pid_t> tids_of(pid_t pid) {
  std::vector<pid_t> tids;
  DIR* directory = ::opendir(fmt::format("/proc/{}/task", pid).c_str());
  while (const dirent* entry = directory ? ::readdir(directory) : nullptr)
    if (entry->d_name[0] != '.') tids.push_back(std::atoi(entry->d_name));
  if (directory) ::closedir(directory);
  return tids;
}

/// How often all threads together were switched out.
std::uint64_t switches_of(pid_t pid) {
  std::uint64_t sum = 0;
  for (const pid_t tid : tids_of(pid)) {
    std::ifstream status(fmt::format("/proc/{}/task/{}/status", pid, tid));
    for (std::string line; std::getline(status, line);)
      if (line.find("ctxt_switches:") != std::string::npos)
        sum += std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10);
  }
  return sum;
}

/// CPU time of this process.
double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// --- the competitor -----------------------------------------------------------------------------

bool copy_from(pid_t tid, std::uint64_t address, void* into, std::size_t size) {
  iovec local{into, size}, remote{reinterpret_cast<void*>(address), size};
  return ::process_vm_readv(tid, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size);
}

std::size_t labels_behind(pid_t tid, std::uint64_t slot) {
  std::uint64_t set = 0, head[2] = {}, labels[4 * 16];
  if (!copy_from(tid, slot, &set, sizeof set) || set == 0) return 0;
  if (!copy_from(tid, set, head, sizeof head) || head[1] > 16) return 0;
  if (!copy_from(tid, head[0], labels, head[1] * 32)) return 0;
  for (std::size_t string = 0; string < 2 * head[1]; ++string) {
    std::vector<char> text(std::min<std::uint64_t>(labels[2 * string], 65536));
    if (!copy_from(tid, labels[2 * string + 1], text.data(), text.size())) return 0;
  }
  return head[1];
}

/// Returns how many labels it read. `offset`: of the slot from the thread pointer.
std::size_t read_by_ptrace(pid_t pid, std::int64_t offset) {
  std::size_t labels = 0;
  for (const pid_t tid : tids_of(pid)) {
    if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) continue;
    ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
    int status = 0;
    ::waitpid(tid, &status, __WALL);
    std::uint64_t tp = 0;
#if defined(__x86_64__)
    ::ptrace(static_cast<__ptrace_request>(30), tid, &tp, 0x1003);  // ARCH_PRCTL, ARCH_GET_FS
#endif
    labels += labels_behind(tid, tp + static_cast<std::uint64_t>(offset));
    ::ptrace(PTRACE_DETACH, tid, nullptr, nullptr);
  }
  return labels;
}

// --- snapshot against ptrace --------------------------------------------------------------------

template <class Body>
double best_of(int rounds, Body body) {
  double best = 1e18;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = Clock::now();
    body();
    best = std::min(best, microseconds_since(begin));
  }
  return best;
}

void compare(const std::string& kind, std::size_t threads) {
  auto target = start(kind, threads);
  auto reader = open(target.pid(), {});
  std::int64_t offset = 0;
  for (const observe::DefinitionInfo& definition : reader->definitions())
    if (definition.format == format::Format::custom_labels_v1)
      offset = std::strtoll(definition.location.c_str() + 2, nullptr, 16);

  const int rounds = threads >= 10'000 ? 5 : 20;
  std::size_t proven = 0, labels = 0;
  const std::uint64_t before = switches_of(target.pid());
  const double first = best_of(1, [&] { read(*reader); });
  const double cpu_before = cpu_seconds();
  const double snapshot = best_of(rounds, [&] {
    proven = labels = 0;
    for (const observe::ThreadLabels& thread : read(*reader).threads) {
      if (thread.format != format::Format::custom_labels_v1) continue;
      proven += thread.evidence != observe::Evidence::unproven;
      labels += thread.set ? thread.set->labels.size() : 0;
    }
  });
  const double cpu = (cpu_seconds() - cpu_before) * 1e6 / rounds;
  const std::uint64_t by_snapshot = switches_of(target.pid()) - before;
  std::size_t competitor_labels = 0;
  const double competitor = best_of(
      std::min(rounds, 5), [&] { competitor_labels = read_by_ptrace(target.pid(), offset); });
  if (labels != 3 * threads || competitor_labels != labels)
    die(fmt::format("{} labels by snapshot, {} by ptrace", labels, competitor_labels));

  const double n = static_cast<double>(threads);
  const double ratio = competitor / snapshot;
  const char* wanted = threads >= 10'000 ? "20" : threads == 100 ? "10" : "";
  fmt::print("{:8} {:7} {:9.2f} {:9.2f} {:9.2f} {:9.2f} {:8.1f}x {:>6} {:8} {:9}/{}\n", kind,
             threads, first / n, snapshot / n, cpu / n, competitor / n, ratio, wanted, by_snapshot,
             proven, threads + 1);
  std::fflush(stdout);
}

// --- ebpf mode ----------------------------------------------------------------------------------

struct ProgramCost {
  std::uint64_t runs = 0, nanoseconds = 0;
};

ProgramCost cost_of(const std::string& program) {
  ProgramCost cost;
  for (__u32 id = 0; bpf_prog_get_next_id(id, &id) == 0;) {
    const int fd = bpf_prog_get_fd_by_id(id);
    bpf_prog_info info{};
    __u32 size = sizeof info;
    if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &size) == 0 && program == info.name)
      cost = {cost.runs + info.run_cnt, cost.nanoseconds + info.run_time_ns};
    if (fd >= 0) ::close(fd);
  }
  return cost;
}

void sample(const std::string& kind, unsigned hz) {
  auto target = start(kind, 2, true);
  observe::LabelOptions options;
  options.mode = observe::Mode::ebpf;
  options.sample_hz = hz;
  auto reader = open(target.pid(), options);
  const int stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
  read(*reader, milliseconds(300));
  const ProgramCost before = cost_of("sample");
  const double cpu = cpu_seconds();
  const auto begin = Clock::now();
  read(*reader, milliseconds(3000));
  const double wall = microseconds_since(begin) / 1e6;
  const double used = cpu_seconds() - cpu;
  const ProgramCost after = cost_of("sample");
  ::close(stats);
  const auto runs = static_cast<double>(std::max<std::uint64_t>(1, after.runs - before.runs));
  const double in_kernel = static_cast<double>(after.nanoseconds - before.nanoseconds) / 1e9;
  fmt::print(
      "{:8} {:5} Hz {:8.0f} samples/s {:8.2f} us/sample in the kernel {:8.3f}% "
      "{:8.2f} us/sample by the reader {:8.3f}%\n",
      kind, hz, runs / wall, in_kernel / runs * 1e6, 100 * in_kernel / wall, used / runs * 1e6,
      100 * used / wall);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) {  // one row: KIND THREADS
    compare(argv[1], static_cast<std::size_t>(std::atoi(argv[2])));
    return 0;
  }
  fmt::print("Reading the labels of all threads, microseconds a thread (three labels each)\n");
  fmt::print("{:8} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6} {:>8} {:>9}\n", "writer", "threads",
             "first", "snapshot", "cpu", "ptrace", "ratio", "wanted", "switches", "proven");
  for (const char* kind : {"vitrine", "malloc", "live"})
    for (const std::size_t threads : {10U, 100U, 1'000U, 10'000U}) compare(kind, threads);
  fmt::print("\nebpf mode, two threads that keep a CPU busy each: share of one CPU\n");
  for (const char* kind : {"vitrine", "malloc"})
    for (const unsigned hz : {99U, 999U}) sample(kind, hz);
}
