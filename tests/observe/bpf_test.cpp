// The BPF programs and their loaders, on this very process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "abi/custom_labels.hpp"
#include "bpf/event.hpp"
#include "bpf/sampler.hpp"
#include "bpf/thread_iterator.hpp"

namespace vitrine::bpf {
namespace {

using namespace std::chrono_literals;
namespace layout = abi::custom_labels;

int pidfd_of_self() {
  return static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
}

pid_t own_tid() {
  return static_cast<pid_t>(::syscall(SYS_gettid));
}

std::map<int, vitrine_thread> by_tid(const std::vector<vitrine_thread>& threads) {
  std::map<int, vitrine_thread> out;
  for (const vitrine_thread& thread : threads) out[thread.tid] = thread;
  return out;
}

/// A thread that runs `body` over and over until it is joined.
class Worker {
 public:
  template <class Body>
  explicit Worker(Body body)
      : thread_([this, body] {
          tp = reinterpret_cast<std::uint64_t>(__builtin_thread_pointer());
          tid = own_tid();
          while (!stop_) body();
        }) {
    while (tid == 0) std::this_thread::yield();
  }
  ~Worker() {
    stop_ = true;
    thread_.join();
  }

  std::atomic<std::uint64_t> tp{0};
  std::atomic<pid_t> tid{0};

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(ThreadIterator, TellsThreadPointersAndWhoRests) {
  Worker sleeper([] { std::this_thread::sleep_for(20ms); });
  Worker spinner([] {});
  const int pidfd = pidfd_of_self();
  auto iterator = ThreadIterator::open(pidfd);
  ASSERT_TRUE(iterator) << iterator.error().message;

  // On a busy machine the spinner may be off its CPU for a while.
  std::size_t rested = 0;
  std::size_t ran = 0;
  const auto end = std::chrono::steady_clock::now() + 20s;
  while ((rested < 50 || ran < 50) && std::chrono::steady_clock::now() < end) {
    std::vector<vitrine_thread> seen;
    auto done = (*iterator)->read(seen);
    ASSERT_TRUE(done) << done.error().message;
    auto threads = by_tid(seen);
    ASSERT_GE(threads.size(), 3u);  // ThreadSanitizer has one of its own
    EXPECT_EQ(threads[sleeper.tid].thread_pointer, sleeper.tp);
    EXPECT_EQ(threads[spinner.tid].thread_pointer, spinner.tp);
    EXPECT_EQ(threads[own_tid()].kernel_tgid, ::getpid());
    EXPECT_FALSE(threads[own_tid()].at_rest) << "it runs the iterator itself";
    rested += threads[sleeper.tid].at_rest;
    ran += !threads[spinner.tid].at_rest;
  }
  EXPECT_GE(rested, 50u);
  EXPECT_GE(ran, 50u);
  ::close(pidfd);
}

TEST(ThreadIterator, CountsEachRun) {
  Worker sleeper([] { std::this_thread::sleep_for(1ms); });
  const int pidfd = pidfd_of_self();
  auto iterator = ThreadIterator::open(pidfd);
  ASSERT_TRUE(iterator) << iterator.error().message;
  std::vector<vitrine_thread> before, after;
  ASSERT_TRUE((*iterator)->read(before));
  std::this_thread::sleep_for(30ms);
  ASSERT_TRUE((*iterator)->read(after));
  EXPECT_GT(by_tid(after)[sleeper.tid].switches, by_tid(before)[sleeper.tid].switches + 3);
  ::close(pidfd);
}

thread_local std::uint64_t slot = 0;

/// The variable's distance from the thread pointer: the same in each thread of this executable.
std::int64_t slot_offset() {
  return static_cast<std::int64_t>(reinterpret_cast<std::uint64_t>(&slot) -
                                   reinterpret_cast<std::uint64_t>(__builtin_thread_pointer()));
}

vitrine_target v1_target() {
  vitrine_target target{};
  target.definition_count = 1;
#ifdef __aarch64__
  target.machine = VITRINE_AARCH64;
#endif
  target.address_mask = ~0ULL;
  target.definitions[0].shape = VITRINE_LABEL_ARRAY;
  target.definitions[0].tls_kind = VITRINE_TLS_STATIC;
  target.definitions[0].tls_offset = slot_offset();
  return target;
}

std::string bytes_at(ChunkMemory& memory, Address address, std::size_t length) {
  std::string out(length, '\0');
  out.resize(memory.read_some(address, std::as_writable_bytes(std::span(out))));
  return out;
}

TEST(Sampler, CopiesAForeignSetWhole) {
  const std::string key = "tenant", value(3000, 'v');
  const std::array<layout::Label, 1> labels{
      {{{key.size(), reinterpret_cast<std::uint64_t>(key.data())},
        {value.size(), reinterpret_cast<std::uint64_t>(value.data())}}}};
  const layout::SetV1 set{reinterpret_cast<std::uint64_t>(labels.data()), 1, 1};
  Worker spinner([&] { slot = reinterpret_cast<std::uint64_t>(&set); });

  auto sampler = Sampler::open();
  ASSERT_TRUE(sampler) << sampler.error().message;
  ASSERT_TRUE((*sampler)->want(::getpid(), v1_target()));
  auto started = (*sampler)->start(999);
  ASSERT_TRUE(started) << started.error().message;

  std::size_t whole = 0;
  for (int round = 0; round < 50 && whole < 20; ++round) {
    auto polled = (*sampler)->poll(100ms, [&](std::span<const std::byte> bytes) {
      auto sample = parse_sample(bytes);
      ASSERT_TRUE(sample) << sample.error().message;
      if (sample->head.tid != spinner.tid) return;
      ASSERT_EQ(sample->sets.size(), 1u);
      ASSERT_EQ(sample->sets[0].head.state, VITRINE_SLOT_READ);
      if (sample->sets[0].head.slot == 0) return;  // before its first store
      EXPECT_EQ(sample->sets[0].head.slot, reinterpret_cast<std::uint64_t>(&set));
      ChunkMemory memory(sample->sets[0].chunks);
      EXPECT_EQ(bytes_at(memory, labels[0].key.buf, key.size()), key);
      EXPECT_EQ(bytes_at(memory, labels[0].value.buf, value.size()), value);
      EXPECT_THAT(memory.missed(), testing::IsEmpty());
      ++whole;
    });
    ASSERT_TRUE(polled) << polled.error().message;
  }
  EXPECT_GE(whole, 20u);
  const SamplerCounters counters = (*sampler)->counters();
  EXPECT_GE(counters.samples, whole);
  EXPECT_EQ(counters.lost, 0u);
}

TEST(Sampler, SamplesOneThreadAlone) {
  Worker one([] {});
  Worker other([] {});
  auto sampler = Sampler::open();
  ASSERT_TRUE(sampler) << sampler.error().message;
  ASSERT_TRUE((*sampler)->want(::getpid(), v1_target()));
  ASSERT_TRUE((*sampler)->start(one.tid.load(), 100us));
  std::size_t seen = 0;
  for (int round = 0; round < 20 && seen < 5; ++round)
    ASSERT_TRUE((*sampler)->poll(50ms, [&](std::span<const std::byte> bytes) {
      auto sample = parse_sample(bytes);
      ASSERT_TRUE(sample);
      EXPECT_EQ(sample->head.tid, one.tid);
      ++seen;
    }));
  EXPECT_GE(seen, 5u);
}

TEST(Sampler, CountsWhatItCouldNotRead) {
  Worker spinner([] { slot = 0x10; });  // no address
  auto sampler = Sampler::open();
  ASSERT_TRUE(sampler) << sampler.error().message;
  ASSERT_TRUE((*sampler)->want(::getpid(), v1_target()));
  ASSERT_TRUE((*sampler)->start(spinner.tid.load(), 100us));
  for (int round = 0; round < 20 && (*sampler)->counters().faults == 0; ++round)
    ASSERT_TRUE((*sampler)->poll(50ms, [](std::span<const std::byte>) {}));
  EXPECT_GT((*sampler)->counters().faults, 0u);
}

TEST(Sampler, ReportsLostSamples) {
  // 4 MiB of buffer, and nobody takes anything out: samples of 12 KiB fill it in a third of a
  // second.
  const std::string value(4000, 'v');
  std::array<layout::Label, 3> labels{};
  for (layout::Label& label : labels)
    label = {{1, reinterpret_cast<std::uint64_t>(value.data())},
             {value.size(), reinterpret_cast<std::uint64_t>(value.data())}};
  const layout::SetV1 set{reinterpret_cast<std::uint64_t>(labels.data()), labels.size(), 3};
  Worker spinner([&] { slot = reinterpret_cast<std::uint64_t>(&set); });
  auto sampler = Sampler::open();
  ASSERT_TRUE(sampler) << sampler.error().message;
  ASSERT_TRUE((*sampler)->want(::getpid(), v1_target()));
  ASSERT_TRUE((*sampler)->start(spinner.tid.load(), 100us));
  for (int round = 0; round < 100 && (*sampler)->counters().lost == 0; ++round)
    std::this_thread::sleep_for(50ms);
  EXPECT_GT((*sampler)->counters().lost, 0u);
}

TEST(ParseSample, RefusesBytesThatEndTooEarly) {
  vitrine_sample head{};
  head.sets = 1;
  vitrine_set set{};
  set.bytes = sizeof(vitrine_chunk);
  vitrine_chunk chunk{0x1000, 8, 8};
  std::vector<std::byte> bytes;
  const auto add = [&](const auto& value) {
    const auto raw = std::as_bytes(std::span(&value, 1));
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  };
  add(head);
  EXPECT_FALSE(parse_sample(bytes));
  add(set);
  EXPECT_FALSE(parse_sample(bytes));
  add(chunk);
  EXPECT_FALSE(parse_sample(bytes)) << "the chunk's own bytes are outside its set";
}

}  // namespace
}  // namespace vitrine::bpf
