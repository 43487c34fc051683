// Tracing a probe: what a fire costs the target, and whether any are lost, against bpftrace on the
// same probe in the same run. The target's loop has a CPU of its own, the tracers the others.
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "bpf/tracer.hpp"
#include "observe/labels/kernel_labels.hpp"
#include "support/child.hpp"
#include "target/maps.hpp"

namespace {

using namespace vitrine;
using std::chrono::milliseconds;

constexpr long fires = 50'000;  // a round
constexpr int rounds = 21;

[[noreturn]] void die(const std::string& why) {
  fmt::print(stderr, "trace_bench: {}\n", why);
  std::exit(1);
}

void pin(pid_t pid, bool to_first) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  const int count = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  for (int cpu = to_first ? 0 : 1; cpu < (to_first ? 1 : count); ++cpu) CPU_SET(cpu, &cpus);
  ::sched_setaffinity(pid, sizeof cpus, &cpus);
}

/// The program that fires.
struct Target {
  test::Child child = test::Child::spawn({FIRED_PROBE});
  std::uint64_t address = 0;
  std::uint64_t file_offset = 0;

  Target() {
    const auto ready = child.read_line();
    if (!ready || ready->rfind("ready 0x", 0) != 0) die("the target does not start");
    address = std::stoull(ready->substr(6), nullptr, 16);
    std::ifstream maps(fmt::format("/proc/{}/maps", child.pid()));
    for (std::string line; std::getline(maps, line);) {
      unsigned long long begin = 0, end = 0, offset = 0;
      if (std::sscanf(line.c_str(), "%llx-%llx %*s %llx", &begin, &end, &offset) == 3 &&
          address >= begin && address < end)
        file_offset = address - begin + offset;
    }
    pin(child.pid(), true);
  }

  /// Nanoseconds a fire.
  double run(long count, long pause_ns = 0) {
    child.write(fmt::format("run {} {}\n", count, pause_ns));
    const auto told = child.read_line(std::chrono::seconds(120));
    if (!told) die("the target does not answer");
    return std::stod(*told);
  }

  bool is_attached_to() {
    unsigned char first = 0;
    const int memory = ::open(fmt::format("/proc/{}/mem", child.pid()).c_str(), O_RDONLY);
    const bool read = ::pread(memory, &first, 1, static_cast<off_t>(address)) == 1;
    ::close(memory);
    return read && first == 0xcc;
  }

  /// The lower quartile of the rounds: what else runs on the machine can only add to them.
  double typical() {
    std::vector<double> costs;
    for (int round = 0; round < rounds; ++round) costs.push_back(run(fires));
    std::sort(costs.begin(), costs.end());
    return costs[costs.size() / 4];
  }
};

vitrine_capture captured(std::uint8_t number, vitrine_capture_form form) {
  vitrine_capture capture{};
  capture.operand.kind = VITRINE_REGISTER;
  capture.operand.size = 8;
  capture.operand.base = number;
  capture.operand.index = VITRINE_NO_REGISTER;
  capture.form = form;
  capture.most = 64;
  return capture;
}

struct Cost {
  double target = 0;  ///< nanoseconds of the target, a fire
  double tracer = 0;  ///< nanoseconds of CPU of the tracer, a fire
  std::uint64_t lost = 0;
};

double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Ours {
  std::unique_ptr<bpf::Tracer> tracer;
  bpf::Attachment attachment;
  std::unique_ptr<observe::Subject> subject;

  Ours(Target& target, bpf::TracerOptions options, vitrine_site_program program) {
    const bool labels = options.labels || !options.selected.empty();
    auto opened = bpf::Tracer::open(std::move(options));
    if (!opened) die(opened.error().message);
    tracer = std::move(*opened);
    program.match = VITRINE_NO_CAPTURE;
    if (auto told = tracer->set_program(0, program); !told) die(told.error().message);
    if (labels) {
      auto found = observe::Subject::open(target.child.pid(), {});
      if (!found) die(found.error().message);
      subject = std::move(*found);
      if (subject->definitions().empty()) die("no labels in the target");
      if (!tracer->want(target.child.pid(), observe::wire_target(*subject, 0)))
        die("cannot tell the tracer of the target");
    }
    bpf::AttachSite site;
    site.file_offset = target.file_offset;
    const int file = ::open(FIRED_PROBE, O_RDONLY | O_CLOEXEC);
    auto attached = tracer->attach(file, std::span(&site, 1), target.child.pid());
    ::close(file);
    if (!attached || !attached->failures.empty()) die("cannot attach");
    attachment = std::move(*attached);
  }

  /// Runs `work` while events are taken.
  Cost read_while(const std::function<double()>& work, long expected) {
    std::atomic<bool> done{false};
    double cpu = 0;
    std::uint64_t seen = 0;
    std::thread reader([&] {
      const double begin = thread_seconds();
      for (bool last = false; !last;) {
        last = done.load();
        (void)tracer->poll(milliseconds(20), [&](const bpf::Fire& fire) {
          seen += fire.captures.size() == 2 && fire.captures[1].bytes.size() == 6;
        });
      }
      cpu = thread_seconds() - begin;
    });
    Cost cost;
    cost.target = work();
    done = true;
    reader.join();
    cost.tracer = cpu * 1e9 / static_cast<double>(expected);
    const auto counters = tracer->counters();
    cost.lost = counters[VITRINE_TRACE_LOST] + counters[VITRINE_TRACE_BUSY];
    if (seen + cost.lost != static_cast<std::uint64_t>(expected))
      die(fmt::format("{} fires of {} were seen, {} lost", seen, expected, cost.lost));
    return cost;
  }
};

bpf::TracerOptions adding_up() {
  bpf::TracerOptions options;
  options.reductions = true;
  options.labels = false;
  return options;
}

vitrine_site_program with_role(vitrine_role role) {
  vitrine_site_program program{};
  program.role = role;
  return program;
}

double ours_adding_up(Target& target, bpf::TracerOptions options,
                      const vitrine_site_program& program) {
  Ours ours(target, std::move(options), program);
  const double cost = target.typical();
  auto rows = ours.tracer->read_reductions();
  std::uint64_t total = 0;
  if (rows)
    for (const auto& row : *rows) total += row.count;
  if (total != static_cast<std::uint64_t>(fires) * rounds)
    die(fmt::format("{} fires were counted of {}", total, fires * rounds));
  return cost;
}

vitrine_site_program events() {
  vitrine_site_program program{};
  program.capture[program.captures++] = captured(14, VITRINE_CAPTURE_VALUE);   // rdi
  program.capture[program.captures++] = captured(13, VITRINE_CAPTURE_STRING);  // rsi
  return program;
}

Cost ours_telling(Target& target, bool labels) {
  bpf::TracerOptions options;
  options.labels = labels;
  options.ring_bytes = 64U << 20;
  Ours ours(target, options, events());
  return ours.read_while([&] { return target.typical(); }, fires * rounds);
}

double child_seconds(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  unsigned long user = 0, system = 0;
  std::sscanf(line.c_str() + line.rfind(')') + 1,
              " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
  return static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

Cost of_bpftrace(Target& target, const std::string& action) {
  const std::string script =
      fmt::format("exec bpftrace -p {} -e 'usdt:{}:bench:fire {{ {} }}' >/dev/null 2>&1",
                  target.child.pid(), FIRED_PROBE, action);
  auto tracer = test::Child::spawn({"sh", "-c", script});
  pin(tracer.pid(), false);
  for (int i = 0; !target.is_attached_to(); ++i) {
    if (i > 1000) die("bpftrace does not attach");
    std::this_thread::sleep_for(milliseconds(20));
  }
  const double begin = child_seconds(tracer.pid());
  Cost cost;
  cost.target = target.typical();
  cost.tracer = (child_seconds(tracer.pid()) - begin) * 1e9 / static_cast<double>(fires * rounds);
  tracer.signal(SIGINT);
  tracer.wait(std::chrono::seconds(60));
  return cost;
}

void row(const std::string& what, double ns, double baseline) {
  fmt::print("{:<44} {:>8.0f} ns {:>10}\n", what, ns,
             baseline > 0 ? fmt::format("{:.2f} x", ns / baseline) : "");
}

/// One line of the table, and how to find what is in it.
struct Case {
  std::string what;
  std::function<Cost()> measure;
};

/// Runs the cases that `only` is part of the name of; the first is what the others are compared with.
void compare(const std::vector<Case>& cases, const std::string& only) {
  double baseline = 0;
  for (const Case& one : cases) {
    if (one.what.find(only) == std::string::npos) continue;
    const Cost cost = one.measure();
    if (baseline == 0) baseline = cost.target;
    row(one.what, cost.target, baseline);
    if (cost.tracer != 0)
      fmt::print("{:<44} {:>8.0f} ns {:>10}\n", "", cost.tracer,
                 cost.lost != 0 ? fmt::format("lost {}", cost.lost) : "");
  }
}

std::vector<Case> adding_up_cases(Target& target) {
  auto histogram = with_role(VITRINE_HISTOGRAM);
  histogram.capture[histogram.captures++] = captured(14, VITRINE_CAPTURE_VALUE);
  auto options = adding_up();
  options.selected = {{VITRINE_SELECT_LABEL, "tenant"}};
  auto by_label = with_role(VITRINE_COUNT);
  by_label.group_labels = 1;
  const auto theirs = [&target](const std::string& action) {
    return [&target, action] { return Cost{of_bpftrace(target, action).target}; };
  };
  const auto ours = [&target](const bpf::TracerOptions& with, const vitrine_site_program& program) {
    return [&target, with, program] { return Cost{ours_adding_up(target, with, program)}; };
  };
  return {{"bpftrace @ = count()", theirs("@ = count();")},
          {"vitrine --count", ours(adding_up(), with_role(VITRINE_COUNT))},
          {"vitrine --count --by label tenant", ours(options, by_label)},
          {"bpftrace @[arg0 & 15] = count()", theirs("@[arg0 & 15] = count();")},
          {"bpftrace @ = hist(arg0)", theirs("@ = hist(arg0);")},
          {"vitrine --hist arg0", ours(adding_up(), histogram)}};
}

/// No fire of the benchmark has this argument.
std::vector<Case> condition_cases(Target& target) {
  const auto rejecting = [&target](bool labels) {
    bpf::TracerOptions options;
    options.labels = labels;
    auto program = events();
    program.not_tested = 1;
    program.where.count = 1;
    program.where.tests[0].subject = VITRINE_ON_ARGUMENT;
    program.where.tests[0].comparison = VITRINE_EQ;
    program.where.tests[0].operand = 1ULL << 60;
    Ours ours(target, options, program);
    const double cost = target.typical();
    if (ours.tracer->counters()[VITRINE_TRACE_FIRES] != 0) die("a fire passed the condition");
    return Cost{cost};
  };
  const auto theirs = [&target] {
    return Cost{
        of_bpftrace(target, "if (arg0 == 1 << 60) { printf(\"%d %s\\n\", arg0, str(arg1)); }")
            .target};
  };
  return {{"bpftrace, a condition rejects each", theirs},
          {"vitrine, no labels, a condition rejects each", [=] { return rejecting(false); }},
          {"vitrine, three labels, a condition rejects each", [=] { return rejecting(true); }},
          {"bpftrace again, a condition rejects each", theirs}};
}

std::vector<Case> event_cases(Target& target) {
  return {{"bpftrace printf",
           [&] { return of_bpftrace(target, "printf(\"%d %s\\n\", arg0, str(arg1));"); }},
          {"vitrine, no labels", [&] { return ours_telling(target, false); }},
          {"vitrine, three labels", [&] { return ours_telling(target, true); }}};
}

}  // namespace

/// With an argument, of the cases only those whose name has it.
int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  pin(0, false);
  Target target;
  row("not traced", target.run(50'000'000), 0);

  fmt::print("\nadded up in the kernel, per fire of the target\n");
  compare(adding_up_cases(target), only);
  fmt::print("\na condition that no fire meets, per fire of the target\n");
  compare(condition_cases(target), only);
  fmt::print("\nevents with a number and a string, per fire of the target (CPU of the tracer)\n");
  compare(event_cases(target), only);
  if (!only.empty()) return 0;

  fmt::print("\n100,000 events a second with labels, for 5 s\n");
  Ours ours(target, {}, events());
  const Cost paced = ours.read_while([&] { return target.run(500'000, 10'000); }, 500'000);
  fmt::print("{:<44} {:>8} lost\n", fmt::format("vitrine ({:.0f}/s)", 1e9 / paced.target),
             paced.lost);
}
