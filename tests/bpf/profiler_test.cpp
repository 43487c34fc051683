// The profiler: threads of this process, and of its children, sampled while they run and wait.
#include "bpf/profiler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <thread>

#include "bpf/own_profiler.hpp"

namespace vitrine::bpf {
namespace {

using std::chrono::nanoseconds;
using testing::ElementsAre;
using testing::IsEmpty;

extern "C" {
/// Spins until *stop; says its stack pointer in *sp. What it returns to is in `vitrine_spin_end`.
void vitrine_spin(const std::atomic<bool>* stop, std::uint64_t* sp);
extern const char vitrine_spin_end[];
}
__asm__(
    ".text\n.globl vitrine_spin, vitrine_spin_end\n.type vitrine_spin, @function\nvitrine_spin:\n"
    "  mov %rsp, (%rsi)\n"
    "1: cmpb $0, (%rdi)\n"
    "  je 1b\n"
    "  ret\n"
    "vitrine_spin_end:\n.size vitrine_spin, . - vitrine_spin\n");

ProfilerOptions on_cpu() {
  ProfilerOptions options;
  options.frequency = 999;
  return options;
}

TEST(ProfilerOnCpu, TellsTheLabelsTheRegistersAndTheStackOfAThread) {
  std::atomic<bool> stop{false};
  std::uint64_t sp = 0;
  std::atomic<std::uint64_t> thread_pointer{0}, pattern_at{0};
  OwnProfiler own(on_cpu());
  Worker worker([&](const std::stop_token&) {
    OwnSet set;
    Record record;
    set.put({{"tenant", "acme"}, {"route", "/pay"}}, 1);
    record.put(9, 7, {"/orders", "other"});
    slots.v1 = address_of(set.block);
    slots.record = address_of(record.bytes);
    volatile std::uint64_t pattern[64];
    for (std::uint64_t i = 0; i < 64; ++i) pattern[i] = 0x1234567800000000U + i;
    pattern_at = address_of(const_cast<std::uint64_t*>(pattern));
    thread_pointer = address_of(__builtin_thread_pointer());
    vitrine_spin(&stop, &sp);
    slots = {};
  });
  const auto spins = [&](const Kept& sample) {
    return sample.head.event.tid == worker.tid() && sample.registers.size() == 21 &&
           sample.registers[pc_word] >=
               address_of(reinterpret_cast<const void*>(&vitrine_spin)) + 3 &&
           sample.registers[pc_word] < address_of(vitrine_spin_end);
  };
  std::size_t whole = 0;
  for (int round = 0; round < 5; ++round) {
    const Kept* sample = own.until(spins);
    if (sample == nullptr) break;
    EXPECT_EQ(sample->head.event.pid, ::getpid());
    EXPECT_EQ(sample->head.event.flags & ~std::uint32_t{VITRINE_SAMPLE_STACK_CUT}, 0u);
    EXPECT_THAT(sample->v1_labels,
                ElementsAre(std::pair("tenant", "acme"), std::pair("route", "/pay")));
    EXPECT_THAT(sample->otel_labels,
                ElementsAre(std::pair("http.route", "/orders"), std::pair("tenant", "other")));
    EXPECT_EQ(sample->registers[sp_word], sp);
    EXPECT_EQ(sample->stack_start, sp);
    // Not what is above the stack: the thread's variables.
    EXPECT_LE(sample->stack_start + sample->stack.size(), thread_pointer);
    whole += sample->has(VITRINE_SAMPLE_STACK_CUT) ? 0 : 1;
    std::uint64_t pattern[64] = {};
    ASSERT_GE(sample->stack.size(), pattern_at - sp + sizeof pattern);
    std::memcpy(pattern, sample->stack.data() + (pattern_at - sp), sizeof pattern);
    for (std::uint64_t i = 0; i < 64; ++i) EXPECT_EQ(pattern[i], 0x1234567800000000U + i);
  }
  EXPECT_EQ(whole, 5u) << "the stack is short, and all of it was in use";
  stop = true;
  worker.stop();
  own.finish();
  const ProfilerCounters counters = own.profiler->counters();
  EXPECT_EQ(counters.samples, own.samples.size() + counters.lost);
}

TEST(ProfilerOnCpu, TellsOfBothStacksOfAThreadInTheKernel) {
  OwnProfiler own(on_cpu());
  Worker worker([](const std::stop_token& stop) {
    std::vector<char> zeros(8U << 20);
    std::ifstream zero("/dev/zero");
    while (!stop.stop_requested()) zero.rdbuf()->sgetn(zeros.data(), 8 << 20);
  });
  const Kept* sample = own.until([&](const Kept& seen) {
    return seen.head.event.tid == worker.tid() && !seen.kernel_stack.empty();
  });
  worker.stop();
  ASSERT_NE(sample, nullptr);
  for (const std::uint64_t address : sample->kernel_stack) EXPECT_GE(address >> 47, 0x1ffffU);
  ASSERT_EQ(sample->registers.size(), 21u);
  EXPECT_LT(sample->registers[pc_word] >> 47, 1u);
  EXPECT_EQ(sample->stack_start, sample->registers[sp_word] & ~7ULL);
  EXPECT_FALSE(sample->stack.empty());
}

TEST(ProfilerOnCpu, CopiesNoMoreOfAStackThanAskedFor) {
  ProfilerOptions options = on_cpu();
  options.stack_bytes = 256;
  OwnProfiler own(options);
  Worker worker([](const std::stop_token& stop) {
    volatile char deep[4096];
    deep[0] = 1;
    while (!stop.stop_requested()) deep[1] = deep[0];
  });
  const Kept* sample =
      own.until([&](const Kept& seen) { return seen.head.event.tid == worker.tid(); });
  worker.stop();
  ASSERT_NE(sample, nullptr);
  EXPECT_EQ(sample->stack.size(), 256u);
  EXPECT_TRUE(sample->has(VITRINE_SAMPLE_STACK_CUT));
}

bool sees(OwnProfiler& own, pid_t pid) {
  return std::any_of(own.samples.begin(), own.samples.end(),
                     [&](const Kept& sample) { return sample.head.event.pid == pid; });
}

TEST(ProfilerProcesses, AreTheseTheirChildrenOrAll) {
  const ChildProcess child([] {});
  struct Case {
    bool every_process, follow, wanted, sees;
    std::uint32_t flags;
  };
  for (const Case& one :
       {Case{false, false, true, false, 0}, Case{false, true, true, true, VITRINE_FIRE_INHERITED},
        Case{false, true, false, false, 0}, Case{true, false, false, true, VITRINE_FIRE_UNKNOWN}}) {
    ProfilerOptions options = on_cpu();
    options.every_process = one.every_process;
    options.follow = one.follow;
    const ChildProcess known([] {});
    OwnProfiler own(options, false);
    ASSERT_TRUE(own.profiler->want(known.pid(), own_target()));
    std::optional<ChildProcess> later;
    if (one.wanted) {
      ASSERT_TRUE(own.profiler->want(::getpid(), own_target()));
      later.emplace([] {});  // what was told before holds for it
    }
    const pid_t subject = later ? later->pid() : child.pid();
    // The known one and the subject take turns, so when one of them has been seen often …
    std::size_t seen = 0;
    own.until([&](const Kept& sample) {
      if (one.sees) return sample.head.event.pid == subject;
      return sample.head.event.pid == known.pid() && ++seen == 300;
    });
    EXPECT_EQ(sees(own, subject), one.sees);
    for (const Kept& sample : own.samples) {
      if (sample.head.event.pid == subject) {
        EXPECT_EQ(sample.head.event.flags & ~std::uint32_t{VITRINE_SAMPLE_STACK_CUT}, one.flags);
      }
    }
  }
}

TEST(ProfilerOffCpu, TellsHowLongAThreadSleptUnderTheLabelsThatItWentWith) {
  constexpr int times = 20;
  OwnProfiler own(off_cpu());
  std::atomic<std::int64_t> own_clock_ns{0};
  std::atomic<bool> done{false};
  OwnSet set;
  Worker worker([&](const std::stop_token&) {
    slots.v1 = address_of(set.block);
    for (int i = 0; i < times; ++i) {
      set.put({{"round", std::to_string(i)}}, static_cast<std::uint64_t>(i) + 1);
      const auto begin = std::chrono::steady_clock::now();
      std::this_thread::sleep_for(10ms);
      own_clock_ns += nanoseconds(std::chrono::steady_clock::now() - begin).count();
    }
    slots = {};
    done = true;
    done.notify_all();
  });
  done.wait(false);
  worker.stop();
  own.finish();
  std::vector<Kept> sleeps;
  for (const Kept& sample : own.of(worker.tid(), VITRINE_SAMPLE_OFF_CPU))
    if (!sample.v1_labels.empty()) sleeps.push_back(sample);
  ASSERT_GE(sleeps.size(), static_cast<std::size_t>(times));
  for (int i = 0, at = 0; i < times; ++i, ++at)
    EXPECT_THAT(sleeps[static_cast<std::size_t>(at)].v1_labels,
                ElementsAre(std::pair("round", std::to_string(i))));
  EXPECT_LE(off_ns(sleeps), static_cast<std::uint64_t>(own_clock_ns));
  EXPECT_GE(off_ns(sleeps),
            static_cast<std::uint64_t>(nanoseconds(times * 10ms).count()) * 99 / 100);
  for (const Kept& sample : sleeps) {
    EXPECT_FALSE(sample.kernel_stack.empty());
    EXPECT_EQ(sample.registers.size(), 21u);
    EXPECT_FALSE(sample.stack.empty());
    EXPECT_FALSE(sample.has(VITRINE_SAMPLE_PREEMPTED | VITRINE_SAMPLE_UNFINISHED));
  }
}

TEST(ProfilerOffCpu, BeginsTheKernelsStackWithTheScheduler) {
  OwnProfiler own(off_cpu());
  Worker worker([](const std::stop_token& stop) {
    while (!stop.stop_requested()) std::this_thread::sleep_for(1ms);
  });
  const Kept* sample =
      own.until([&](const Kept& seen) { return seen.head.event.tid == worker.tid(); });
  worker.stop();
  ASSERT_NE(sample, nullptr);
  ASSERT_GE(sample->kernel_stack.size(), 3u);
  EXPECT_THAT(kernel_function(sample->kernel_stack[0]), testing::HasSubstr("schedule"));
  EXPECT_EQ(kernel_function(sample->kernel_stack[1]), "schedule");
}

TEST(ProfilerOffCpu, TellsOfFutexesAndOfEpoll) {
  OwnProfiler own(off_cpu());
  std::mutex mutex;
  std::condition_variable_any condition;
  Worker futex([&](const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    condition.wait(lock, stop, [] { return false; });
  });
  const int set = ::epoll_create1(0);
  Worker epoll([&](const std::stop_token&) {
    epoll_event event{};
    ::epoll_wait(set, &event, 1, 50);
  });
  std::this_thread::sleep_for(60ms);
  futex.stop();
  epoll.stop();
  own.finish();
  ::close(set);
  EXPECT_GE(off_ns(own.of(epoll.tid(), VITRINE_SAMPLE_OFF_CPU)), 49'000'000u);
  EXPECT_GE(off_ns(own.of(futex.tid(), VITRINE_SAMPLE_OFF_CPU)), 10'000'000u);
}

TEST(ProfilerOffCpu, TellsOfThreadsThatDoNotComeBack) {
  OwnProfiler own(off_cpu());
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  OwnSet set;
  set.put({{"waits", "for ever"}}, 1);
  Worker worker([&](const std::stop_token&) {
    slots.v1 = address_of(set.block);
    char byte = 0;
    while (::read(ends[0], &byte, 1) < 0) {
    }
    slots = {};
  });
  until_it_waits(::getpid(), worker.tid(), read_call);
  own.finish();
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  worker.stop();
  ::close(ends[0]);
  ::close(ends[1]);
  const auto waits = own.of(worker.tid(), VITRINE_SAMPLE_OFF_CPU);
  ASSERT_FALSE(waits.empty());
  EXPECT_TRUE(waits.back().has(VITRINE_SAMPLE_UNFINISHED));
  EXPECT_GT(waits.back().head.off_ns, 0u);
  EXPECT_THAT(waits.back().v1_labels, ElementsAre(std::pair("waits", "for ever")));
  const ProfilerCounters counters = own.profiler->counters();
  EXPECT_EQ(counters.samples, own.samples.size() + counters.lost);
}

TEST(ProfilerOffCpu, PassesOverShortStretchesAndCountsThem) {
  ProfilerOptions options = off_cpu();
  options.min_block = 1h;
  OwnProfiler own(options);
  Worker worker([&](const std::stop_token&) { std::this_thread::sleep_for(5ms); });
  worker.stop();
  own.finish();
  EXPECT_THAT(own.samples, IsEmpty());
  EXPECT_GT(own.profiler->counters().short_blocks, 0u);
  EXPECT_EQ(own.profiler->counters().samples, 0u);
}

TEST(ProfilerOffCpu, CountsWhatHasNoRoomToWait) {
  ProfilerOptions options = off_cpu();
  options.pending_bytes = 1U << 20;  // 512 blocks
  OwnProfiler own(options);
  std::mutex mutex;
  std::condition_variable_any condition;
  std::vector<std::unique_ptr<Worker>> workers;
  constexpr std::size_t threads = 200;
  for (std::size_t i = 0; i < threads; ++i)
    workers.push_back(std::make_unique<Worker>([&](const std::stop_token& stop) {
      volatile char deep[12000];
      for (std::size_t at = 0; at < sizeof deep; at += 1000) deep[at] = 1;
      std::unique_lock lock(mutex);
      condition.wait(lock, stop, [] { return false; });
    }));
  for (const auto& worker : workers) until_it_waits(::getpid(), worker->tid(), futex_call);
  own.finish();
  for (auto& worker : workers) worker->stop();
  const ProfilerCounters counters = own.profiler->counters();
  EXPECT_GT(counters.lost, 100u);
  EXPECT_GT(own.samples.size(), 20u);
  EXPECT_EQ(counters.samples, own.samples.size() + counters.lost);
}

TEST(ProfilerOffCpu, TellsOfThreadsThatCouldHaveRunWhenAsked) {
  for (const bool asked : {false, true}) {
    ProfilerOptions options = off_cpu();
    options.preempted = asked;
    OwnProfiler own(options);
    const auto spin = [](const std::stop_token& stop) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(0, &one);
      ::sched_setaffinity(0, sizeof one, &one);
      while (!stop.stop_requested()) {
      }
    };
    Worker first(spin), second(spin);
    if (asked) {
      const Kept* sample = own.until([&](const Kept& seen) {
        return seen.has(VITRINE_SAMPLE_PREEMPTED) && seen.head.event.tid == second.tid();
      });
      ASSERT_NE(sample, nullptr);
      EXPECT_GT(sample->head.off_ns, 0u);
    } else {
      std::this_thread::sleep_for(50ms);
      own.finish();
      for (const Kept& sample : own.samples) EXPECT_FALSE(sample.has(VITRINE_SAMPLE_PREEMPTED));
    }
  }
}

TEST(Profiler, RefusesToCopyMoreThanFits) {
  ProfilerOptions options;
  options.stack_bytes = 1U << 20;
  const auto opened = Profiler::open(options);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::usage);
}

}  // namespace
}  // namespace vitrine::bpf
