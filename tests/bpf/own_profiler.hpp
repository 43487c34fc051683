// A profiler of this process, for tests: what it has sampled, and threads and children to sample.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bpf/own_labels.hpp"
#include "bpf/profiler.hpp"

namespace vitrine::bpf {

using namespace std::chrono_literals;
using namespace vitrine::test;

inline constexpr std::size_t pc_word = 16, sp_word = 19;

/// A sample that outlives its record.
struct Kept {
  vitrine_stack_sample head{};
  std::vector<std::uint64_t> kernel_stack, registers;
  Address stack_start = 0;
  std::vector<std::byte> stack;
  Labels v1_labels, otel_labels;

  [[nodiscard]] bool is(vitrine_sample_kind kind) const { return head.event.kind == kind; }
  [[nodiscard]] bool has(std::uint32_t flag) const { return (head.event.flags & flag) != 0; }
};

class OwnProfiler {
 public:
  explicit OwnProfiler(const ProfilerOptions& options, bool want = true) {
    auto opened = Profiler::open(options);
    EXPECT_TRUE(opened) << opened.error().message;
    if (!opened) return;
    profiler = std::move(*opened);
    if (want) {
      EXPECT_TRUE(profiler->want(::getpid(), own_target()));
    }
    const auto started = profiler->start();
    EXPECT_TRUE(started) << started.error().message;
  }

  /// Takes in samples until one is as wanted, or a minute has passed.
  const Kept* until(const std::function<bool(const Kept&)>& is_wanted) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (std::chrono::steady_clock::now() < end) {
      const std::size_t seen = samples.size();
      take();
      for (std::size_t i = seen; i < samples.size(); ++i)
        if (is_wanted(samples[i])) return &samples[i];
    }
    ADD_FAILURE() << "no such sample among " << samples.size();
    return nullptr;
  }

  /// Ends sampling, and takes in all that is left.
  void finish() {
    profiler->stop();
    while (take() != 0) {
    }
  }

  /// Takes in what there is. Returns how many samples.
  std::size_t take() {
    const auto taken = profiler->poll(10ms, {[&](const StackSample& sample) {
                                        Kept kept{sample.head,
                                                  sample.kernel_stack,
                                                  sample.registers,
                                                  sample.stack_start,
                                                  {sample.stack.begin(), sample.stack.end()},
                                                  {},
                                                  {}};
                                        if (sample.sets.size() == 3) {
                                          kept.v1_labels = labels_of(sample.sets, v1);
                                          kept.otel_labels = labels_of(sample.sets, otel);
                                        }
                                        samples.push_back(std::move(kept));
                                      }});
    EXPECT_TRUE(taken) << taken.error().message;
    return taken.value_or(0);
  }

  std::vector<Kept> of(pid_t tid, vitrine_sample_kind kind) const {
    std::vector<Kept> out;
    for (const Kept& sample : samples)
      if (sample.head.event.tid == tid && sample.is(kind)) out.push_back(sample);
    return out;
  }

  std::unique_ptr<Profiler> profiler;
  std::vector<Kept> samples;
};

/// A thread that does something until it is told to stop; its id.
class Worker {
 public:
  explicit Worker(std::function<void(const std::stop_token&)> body)
      : thread_([this, body = std::move(body)](const std::stop_token& stop) {
          tid_ = ::gettid();
          tid_.notify_all();
          body(stop);
        }) {
    tid_.wait(0);
  }
  [[nodiscard]] pid_t tid() const { return tid_; }
  void stop() {
    thread_.request_stop();
    thread_.join();
  }

 private:
  std::atomic<pid_t> tid_{0};
  std::jthread thread_;
};

/// Returns when a thread, of which nothing else is to be expected, sleeps in this system call.
inline void until_it_waits(pid_t pid, pid_t tid, const char* call) {
  const std::string path =
      "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/syscall";
  for (std::string number; number != call; std::this_thread::sleep_for(1ms)) {
    std::ifstream file(path);
    file >> number;
  }
}

inline constexpr const char* read_call = "0";
inline constexpr const char* pause_call = "34";
inline constexpr const char* futex_call = "202";

/// A child that does something until it is killed.
class ChildProcess {
 public:
  explicit ChildProcess(const std::function<void()>& body) : pid_(::fork()) {
    if (pid_ == 0) {
      for (;;) body();
    }
  }
  ChildProcess(const ChildProcess&) = delete;
  ~ChildProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

inline ProfilerOptions off_cpu() {
  ProfilerOptions options;
  options.frequency = 0;
  options.off_cpu = true;
  return options;
}

inline std::uint64_t off_ns(const std::vector<Kept>& samples) {
  std::uint64_t sum = 0;
  for (const Kept& sample : samples) sum += sample.head.off_ns;
  return sum;
}

/// The name of the kernel's function that holds an address.
inline std::string kernel_function(std::uint64_t address) {
  std::ifstream symbols("/proc/kallsyms");
  std::string line, best;
  std::uint64_t best_at = 0;
  while (std::getline(symbols, line)) {
    std::size_t end = 0;
    const std::uint64_t at = std::stoull(line, &end, 16);
    if (at > address || at <= best_at) continue;
    best_at = at;
    best = line.substr(end + 3, line.find('\t') - end - 3);
  }
  return best;
}

}  // namespace vitrine::bpf
