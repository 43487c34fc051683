// Labels on fires: read in the kernel, sent once, and told apart when they differ.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "abi/custom_labels.hpp"
#include "base/file_descriptor.hpp"
#include "bpf/own_labels.hpp"
#include "bpf/own_probe.hpp"
#include "query/compile.hpp"

namespace vitrine::bpf {
namespace {

using namespace std::chrono_literals;
using namespace vitrine::test;
namespace layout = abi::custom_labels;
using testing::ElementsAre;
using testing::IsEmpty;

Labels labels_of(const Fire& fire, Definitions definition) {
  return labels_of(fire.sets, definition);
}

class TracerLabels : public testing::Test {
 protected:
  void SetUp() override {
    slots = {};
    own.trace(vitrine_test_site, program(VITRINE_EMIT, {value(in_register(rdi))}));
    ASSERT_TRUE(own.tracer->want(::getpid(), own_target()));
  }
  Fire one() {
    auto fires = own.take(1);
    EXPECT_EQ(fires.size(), 1u);
    return fires.empty() ? Fire{} : fires[0];
  }
  OwnTracer own;
};

TEST_F(TracerLabels, NoneAreInForce) {
  vitrine_test_fire(0);
  const Fire fire = one();
  EXPECT_EQ(fire.head.event.flags, 0u);
  ASSERT_EQ(fire.sets.size(), 3u);
  EXPECT_THAT(labels_of(fire, v1), IsEmpty());
  EXPECT_THAT(labels_of(fire, v0), IsEmpty());
  EXPECT_THAT(labels_of(fire, otel), IsEmpty());
}

TEST_F(TracerLabels, OfAForeignWriterComeOnceWhileTheyStayTheSame) {
  const ForeignSet one_set({{"tenant", "acme"}, {"empty", ""}, {"odd", "seven77"}});
  const ForeignSet other(Labels{{"tenant", "other"}});
  for (int round = 0; round < 3; ++round)
    for (const ForeignSet* set : {&one_set, &other}) {
      slots.v1 = address_of(&set->set);
      vitrine_test_fire(0);
      const Fire fire = one();
      EXPECT_EQ(labels_of(fire, v1), set->text);
      EXPECT_NE(fire.sets[v1].head.id, 0u);
      EXPECT_EQ(fire.sets[v1].head.kept_bytes != 0, round == 0);
    }
}

TEST_F(TracerLabels, OfAForeignWriterAreSentAgainWhenTheirTextChanges) {
  ForeignSet set(Labels{{"tenant", "acme"}});
  slots.v1 = address_of(&set.set);
  vitrine_test_fire(0);
  set.text[0].second[0] = 'A';  // in place: no pointer changes
  vitrine_test_fire(0);
  const auto fires = own.take(2);
  ASSERT_EQ(fires.size(), 2u);
  EXPECT_THAT(labels_of(fires[0], v1), ElementsAre(std::pair("tenant", "acme")));
  EXPECT_THAT(labels_of(fires[1], v1), ElementsAre(std::pair("tenant", "Acme")));
}

TEST_F(TracerLabels, OfOurWriterComeOnceForEachSerial) {
  OwnSet set;
  slots.v1 = address_of(set.block);
  for (std::uint64_t serial = 1; serial <= 3; ++serial) {
    const Labels labels{{"tenant", "acme-" + std::to_string(serial)}, {"n", "2"}};
    set.put(labels, serial);
    for (int round = 0; round < 3; ++round) {
      vitrine_test_fire(0);
      const Fire fire = one();
      EXPECT_EQ(labels_of(fire, v1), labels);
      EXPECT_EQ(fire.sets[v1].head.kept_bytes != 0, round == 0);
    }
  }
}

TEST_F(TracerLabels, OfTheRecordInOurWritersBlockNeedNoLookOfTheirOwn) {
  OwnSet set;
  Record record;
  for (std::uint8_t serial = 1; serial <= 3; ++serial) {
    record.put(9, serial, {"/orders", "acme"});
    set.put({{"tenant", "acme"}}, serial);
    auto& head = *reinterpret_cast<layout::SerialSet*>(set.block);
    const std::size_t at = (head.trailer.total_bytes + 7) / 8 * 8;
    std::memcpy(set.block + at, record.bytes, 256);
    head.trailer.total_bytes = static_cast<std::uint32_t>(at + 256);
    slots.v1 = address_of(set.block);
    slots.record = address_of(set.block + at);
    for (int round = 0; round < 2; ++round) {
      vitrine_test_fire(0);
      Fire fire = one();
      ASSERT_EQ(fire.sets.size(), 3u);
      std::sort(fire.sets.begin(), fire.sets.end(), [](const FireSet& a, const FireSet& b) {
        return a.head.definition < b.head.definition;
      });
      EXPECT_THAT(labels_of(fire, v1), ElementsAre(std::pair("tenant", "acme")));
      EXPECT_THAT(labels_of(fire, otel),
                  ElementsAre(std::pair("http.route", "/orders"), std::pair("tenant", "acme")));
      EXPECT_EQ(decoded(fire.sets[otel], otel).trace->span_id[0], serial);
      EXPECT_EQ(fire.sets[otel].head.fresh_bytes + fire.sets[otel].head.kept_bytes, 0u);
    }
  }
}

TEST_F(TracerLabels, OfVersion0) {
  const ForeignSet set({{"tenant", "acme"}, {"route", "/orders"}});
  slots.v0 = {set.set.storage, set.set.count};
  for (int round = 0; round < 2; ++round) {
    vitrine_test_fire(0);
    const Fire fire = one();
    EXPECT_EQ(labels_of(fire, v0), set.text);
    EXPECT_EQ(fire.sets[v0].head.kept_bytes != 0, round == 0);
  }
}

TEST_F(TracerLabels, OfAThreadRecordComeOnceThoughItsSpansChange) {
  Record record;
  slots.record = address_of(record.bytes);
  for (std::uint8_t span = 1; span <= 4; ++span) {
    record.put(9, span, {"/orders", "acme"});
    vitrine_test_fire(0);
    const Fire fire = one();
    const auto set = decoded(fire.sets.at(otel), otel);
    ASSERT_TRUE(set.trace);
    EXPECT_EQ(set.trace->trace_id[0], 9);
    EXPECT_EQ(set.trace->span_id[7], span);
    EXPECT_THAT(labels_of(fire, otel),
                ElementsAre(std::pair("http.route", "/orders"), std::pair("tenant", "acme")));
    EXPECT_EQ(fire.sets[otel].head.kept_bytes != 0, span == 1);
  }
}

TEST_F(TracerLabels, ThatCannotBeReadAreTold) {
  slots.v1 = 0x10;
  vitrine_test_fire(0);
  const Fire fire = one();
  ASSERT_EQ(fire.sets.size(), 3u);
  EXPECT_EQ(fire.sets[v1].head.id, 0u);
  EXPECT_EQ(fire.sets[v1].head.slot, 0x10u);
  EXPECT_EQ(fire.sets[v1].chunks.at(0).bytes.size(), 0u);
  EXPECT_GT(own.tracer->counters()[VITRINE_TRACE_FAULTS], 0u);
}

TEST_F(TracerLabels, AreSentAgainWhenTheRecordThatCarriedThemWasLost) {
  TracerOptions options;
  options.ring_bytes = 64 * 1024;
  OwnTracer small(options);
  small.trace(vitrine_test_end_site, program(VITRINE_EMIT, {string(in_register(rdi), 4000)}));
  ASSERT_TRUE(small.tracer->want(::getpid(), own_target()));
  const std::string text(4000, 't');
  for (int i = 0; i < 30; ++i) vitrine_test_end(address_of(text.c_str()));
  const ForeignSet set(Labels{{"tenant", "acme"}});
  slots.v1 = address_of(&set.set);
  vitrine_test_end(address_of(text.c_str()));  // lost
  ASSERT_GT(small.tracer->counters()[VITRINE_TRACE_LOST], 10u);
  small.take(30);
  vitrine_test_end(address_of(text.c_str()));
  const auto fires = small.take(1);
  ASSERT_EQ(fires.size(), 1u);
  EXPECT_EQ(labels_of(fires[0], v1), set.text);
}

TEST_F(TracerLabels, StayKnownHoweverManyThereAre) {
  TracerOptions options;
  options.kept_sets_bytes = 4096;
  OwnTracer little(options);
  little.trace(vitrine_test_end_site, program(VITRINE_EMIT, {}));
  ASSERT_TRUE(little.tracer->want(::getpid(), own_target()));
  OwnSet set;
  slots.v1 = address_of(set.block);
  for (std::uint64_t serial = 1; serial <= 200; ++serial) {
    const Labels labels{{"serial", std::to_string(serial)}};
    set.put(labels, serial);
    for (int round = 0; round < 3; ++round) {
      vitrine_test_end(0);
      const auto fires = little.take(1);
      ASSERT_EQ(fires.size(), 1u);
      EXPECT_EQ(labels_of(fires[0], v1), labels);
    }
  }
}

/// Text in a page that is read from the disk each time.
class PageOnDisk {
 public:
  PageOnDisk() : file_(::mkostemp(path_.data(), O_CLOEXEC)) {
    EXPECT_EQ(::pwrite(file_.get(), "text", 5, 0), 5) << path_ << std::strerror(errno);
    EXPECT_EQ(::ftruncate(file_.get(), bytes), 0);
    page_ = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file_.get(), 0);
    put_away();
  }
  ~PageOnDisk() {
    ::munmap(page_, bytes);
    ::unlink(path_.c_str());
  }
  PageOnDisk(const PageOnDisk&) = delete;

  std::uint64_t address() const { return address_of(page_); }
  /// As files do in a file system that is in memory.
  bool stays_in_memory() const {
    unsigned char is_resident = 0;
    EXPECT_EQ(::mincore(page_, bytes, &is_resident), 0);
    return (is_resident & 1) != 0;
  }
  void put_away() const {
    ::fsync(file_.get());
    ::madvise(page_, bytes, MADV_DONTNEED);
    ::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);
  }

 private:
  static constexpr std::size_t bytes = 4096;
  std::string path_ = "tracer_labels_test.XXXXXX";  // beside what is built: /tmp may be in memory
  FileDescriptor file_;
  void* page_ = nullptr;
};

// While fires wait for their argument, others on the same CPU run the same program, and the reader begins to keep other
// sets: what those that waited carry was sent in the time before.
TEST_F(TracerLabels, OfFiresThatWaitAreTheirOwn) {
  TracerOptions options;
  options.kept_sets_bytes = 4096;
  OwnTracer little(options);
  little.trace(vitrine_test_end_site, program(VITRINE_EMIT, {string(in_register(rdi))}));
  ASSERT_TRUE(little.tracer->want(::getpid(), own_target()));
  const PageOnDisk page;
  if (page.stays_in_memory())
    GTEST_SKIP() << "the working directory is in memory: no page is waited for";
  const ForeignSet foreign(Labels{{"tenant", "acme"}});
  OwnSet own_set;
  own_set.put(foreign.text, 1);
  std::atomic<bool> ended = false;
  constexpr std::size_t waits = 400;
  std::thread waiting([&] {
    for (std::size_t i = 0; i < waits; ++i) {
      slots.v1 = i % 2 == 0 ? address_of(&foreign.set) : address_of(own_set.block);
      page.put_away();
      vitrine_test_end(page.address());
    }
    ended = true;
  });
  const pid_t others_thread = ::gettid();
  std::size_t taken = 0;
  const auto take = [&](const Fire& fire) {
    if (fire.head.event.tid == others_thread) return;
    ++taken;
    EXPECT_EQ(labels_of(fire, v1), foreign.text) << "fire " << taken;
  };
  for (int i = 0; !ended; ++i) {
    const ForeignSet other(Labels{{"other", std::to_string(i) + std::string(200, 'x')}});
    slots.v1 = address_of(&other.set);
    vitrine_test_end(0);
    EXPECT_TRUE(little.tracer->poll(10ms, take));
  }
  waiting.join();
  while (*little.tracer->poll(1s, take) > 0) {
  }
  const auto counters = little.tracer->counters();
  EXPECT_EQ(taken + counters[VITRINE_TRACE_LOST] + counters[VITRINE_TRACE_BUSY], waits);
  EXPECT_GT(taken, waits / 2);
}

TEST_F(TracerLabels, OfAProcessThatIsNotKnownAreMissingAndItIsSaid) {
  own.tracer->forget(::getpid());
  vitrine_test_fire(1);
  const Fire fire = one();
  EXPECT_EQ(fire.head.event.flags, static_cast<std::uint32_t>(VITRINE_FIRE_UNKNOWN));
  EXPECT_THAT(fire.sets, IsEmpty());
  EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_UNKNOWN], 1u);
}

/// The program keeps what it has looked up for the next fire.
TEST_F(TracerLabels, AreReadAsTheProcessWasGivenLast) {
  vitrine_test_fire(1);
  EXPECT_EQ(one().sets.size(), 3u);
  vitrine_target other = own_target();
  other.definition_count = 1;
  ASSERT_TRUE(own.tracer->want(::getpid(), other));
  vitrine_test_fire(2);
  EXPECT_EQ(one().sets.size(), 1u);
  own.tracer->forget(::getpid());
  vitrine_test_fire(3);
  EXPECT_EQ(one().head.event.flags, static_cast<std::uint32_t>(VITRINE_FIRE_UNKNOWN));
  ASSERT_TRUE(own.tracer->want(::getpid(), own_target()));
  vitrine_test_fire(4);
  EXPECT_EQ(one().sets.size(), 3u);
}

TEST_F(TracerLabels, AreReadAsTheProcessWasGivenLastWhileOthersChange) {
  constexpr pid_t beyond = 1 << 22;  // no process has such a number
  constexpr pid_t others = 64;
  std::atomic<bool> done{false};
  std::thread changing([&] {
    for (pid_t i = 0; !done; i = (i + 1) % others) {
      EXPECT_TRUE(own.tracer->want(beyond + i, own_target()));
      own.tracer->forget(beyond + (i + others / 2) % others);
    }
  });
  constexpr std::uint64_t fires = 2000, of_each = 4;
  const auto number_of = [](std::uint64_t fire) { return fire / of_each % 16; };
  for (std::uint64_t i = 0; i < fires; ++i) {
    vitrine_target target = own_target();
    target.definition_count = 1;
    target.definitions[0].number = static_cast<std::uint32_t>(number_of(i));
    if (i % of_each == 0) {
      EXPECT_TRUE(own.tracer->want(::getpid(), target));
    }
    vitrine_test_fire(i);
  }
  done = true;
  changing.join();
  const auto taken = own.take(fires);
  ASSERT_EQ(taken.size(), fires);
  for (const Fire& fire : taken) {
    const std::uint64_t number = fire.captures[0].head.value;
    EXPECT_EQ(fire.head.event.flags, 0u) << number;
    ASSERT_EQ(fire.sets.size(), 1u) << number;
    EXPECT_EQ(fire.sets[0].head.definition, number_of(number)) << number;
  }
}

/// The loader looks at a process again while its threads fire. With and without a search by the kernel.
TEST_F(TracerLabels, AreReadWhileTheirProcessIsGivenAnew) {
  const ForeignSet set(Labels{{"tenant", "acme"}});
  slots.v1 = address_of(&set.set);
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> given{0};
  std::thread giving([&] {
    for (; !done; ++given) {
      EXPECT_TRUE(own.tracer->want(::getpid(), own_target()));
      std::this_thread::sleep_for(20us);
    }
  });
  constexpr std::uint64_t fires = 20'000, at_once = 1'000;
  std::uint64_t taken = 0, without = 0;
  while (taken < fires) {
    for (std::uint64_t i = 0; i < at_once; ++i) vitrine_test_fire(i);
    const auto some = own.take(at_once);
    ASSERT_EQ(some.size(), at_once);
    taken += some.size();
    for (const Fire& fire : some)
      without += fire.head.event.flags != 0 || labels_of(fire, v1) != set.text;
  }
  done = true;
  giving.join();
  EXPECT_EQ(without, 0u);
  EXPECT_GT(given, 0u);
}

/// Runs `body` in a child and waits for its end.
template <class Body>
void in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(TracerProcesses, ForkedFromAKnownOneAreReadAsThatOneIs) {
  slots = {};
  OwnTracer own;
  own.trace(vitrine_test_site, program(VITRINE_EMIT, {value(in_register(rdi))}), 0, std::nullopt);
  ASSERT_TRUE(own.tracer->want(::getpid(), own_target()));
  vitrine_test_fire(0);
  const ForeignSet set(Labels{{"tenant", "child"}});
  in_child([&] {
    slots.v1 = address_of(&set.set);
    vitrine_test_fire(1);
    in_child([] { vitrine_test_fire(2); });
  });
  const auto fires = own.take(3);
  ASSERT_EQ(fires.size(), 3u);
  EXPECT_EQ(fires[0].head.event.flags, 0u);
  for (int i = 1; i < 3; ++i) {
    EXPECT_EQ(fires[static_cast<std::size_t>(i)].head.event.flags,
              static_cast<std::uint32_t>(VITRINE_FIRE_INHERITED));
    EXPECT_EQ(labels_of(fires[static_cast<std::size_t>(i)], v1), set.text);
  }
}

TEST(TracerProcesses, OthersAreLeftOutWhenOnlyTheKnownAreWanted) {
  TracerOptions options;
  options.only_known = true;
  OwnTracer own(options);
  own.trace(vitrine_test_site, program(VITRINE_EMIT, {value(in_register(rdi))}), 0, std::nullopt);
  in_child([] { vitrine_test_fire(1); });
  vitrine_test_fire(2);
  ASSERT_TRUE(own.tracer->want(::getpid(), own_target()));
  in_child([] { vitrine_test_fire(3); });
  vitrine_test_fire(4);
  const auto fires = own.take(3);
  ASSERT_EQ(fires.size(), 2u);
  EXPECT_EQ(fires[0].captures[0].head.value, 3u);
  EXPECT_EQ(fires[1].captures[0].head.value, 4u);
}

TEST(TracerProcesses, WhatAKnownOneExecutesFiresToo) {
  if (const char* number = std::getenv("VITRINE_FIRE")) {  // the child, below
    vitrine_test_fire(std::strtoull(number, nullptr, 10));
    std::_Exit(0);
  }
  TracerOptions options;
  options.only_known = true;
  OwnTracer own(options);
  own.trace(vitrine_test_site, program(VITRINE_EMIT, {value(in_register(rdi))}), 0, std::nullopt);
  const auto execute = [](const char* number) {
    in_child([&] {
      ::setenv("VITRINE_FIRE", number, 1);
      ::execl("/proc/self/exe", "bpf_tracer_test",
              "--gtest_filter=TracerProcesses.WhatAKnownOneExecutesFiresToo", nullptr);
      ::_exit(1);
    });
  };
  execute("1");
  ASSERT_TRUE(own.tracer->want(::getpid(), own_target()));
  execute("2");
  const auto fires = own.take(2);
  ASSERT_EQ(fires.size(), 1u);
  EXPECT_EQ(fires[0].captures[0].head.value, 2u);
  EXPECT_EQ(fires[0].head.event.flags, static_cast<std::uint32_t>(VITRINE_FIRE_UNKNOWN));
}

}  // namespace
}  // namespace vitrine::bpf
