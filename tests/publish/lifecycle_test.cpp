// Threads that end, processes that fork, memory that runs out.
#include <customlabels.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>
#include <vitrine/labels.hpp>

#include "publish/own_slot.hpp"

namespace vitrine {
namespace {

using labels::Key;
using labels::Scope;
using test::Labels;

const Key tenant{"tenant"}, route{"route"};

custom_labels_string_t str(std::string_view text) {
  return {text.size(), reinterpret_cast<const unsigned char*>(text.data())};
}

/// Runs in a forked child; the result is whether every `expect` held.
class InChild {
 public:
  template <class F>
  static bool run(F&& body) {
    const pid_t child = fork();
    if (child == 0) {
      InChild check;
      body(check);
      _exit(check.failed_ ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  void expect(bool held, const char* what) {
    if (held) return;
    failed_ = true;
    (void)!write(2, what, std::strlen(what));
    (void)!write(2, "\n", 1);
  }

 private:
  bool failed_ = false;
};

// Upstream defect 9: the child shows the labels of the thread that forked.
TEST(Fork, TheChildStartsWithoutLabelsAndCanUseThem) {
  Scope outer{tenant, "acme"};
  Scope inner{route, "/"};
  const labels::Set captured = labels::capture();
  EXPECT_TRUE(InChild::run([&](InChild& child) {
    child.expect(test::v1_slot == nullptr, "labels of the parent are in force");
    child.expect(test::record_slot == nullptr, "the record of the parent is in force");
    {
      Scope scope{tenant, "child"};
      child.expect(test::v1_labels() == Labels{{"tenant", "child"}}, "no labels of its own");
    }
    child.expect(test::v1_slot == nullptr, "a scope's end brought the parent's labels back");
    {
      const labels::Attach attached(captured);
      child.expect(test::v1_labels() == Labels{{"tenant", "acme"}, {"route", "/"}},
                   "what was captured before is not in force");
    }
    child.expect(Key{"a new one"}.ok(), "no new key");
    std::thread([&] {
      Scope scope{tenant, "thread"};
      child.expect(test::v1_labels() == Labels{{"tenant", "thread"}}, "no labels on a new thread");
    }).join();
  }));
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}, {"route", "/"}}));
}

TEST(Fork, ScopesOpenAcrossItBringNothingBackInTheChild) {
  Scope outer{tenant, "acme"};
  EXPECT_TRUE(InChild::run([](InChild& child) {
    // As in a child that returns from the functions it was forked in.
    { Scope scope{route, "mine"}; }
    child.expect(test::v1_slot == nullptr, "labels came back");
  }));
  {
    Scope inner{route, "/"};
    const pid_t pid = fork();
    if (pid != 0) {
      int status = 0;
      waitpid(pid, &status, 0);
      EXPECT_EQ(status, 0);
    } else {
      inner.~Scope();
      _exit(test::v1_slot == nullptr ? 0 : 1);
    }
  }
}

TEST(Fork, TakesAHandleDownInTheChildAlone) {
  custom_labels_labelset_t* set = custom_labels_new(0);
  ASSERT_EQ(custom_labels_set(set, str("tenant"), str("acme"), nullptr), 0);
  custom_labels_replace(set);
  EXPECT_TRUE(InChild::run([&](InChild& child) {
    child.expect(custom_labels_current() == nullptr, "the parent's handle is in force");
    child.expect(test::record_slot == nullptr, "a record is in force");
    // The child's copy can be changed, put in force again, and freed.
    child.expect(custom_labels_set(set, str("tenant"), str("child"), nullptr) == 0, "no change");
    child.expect(test::v1_slot == nullptr, "a change put it in force");
    custom_labels_replace(set);
    child.expect(test::v1_labels() == Labels{{"tenant", "child"}}, "not in force again");
    custom_labels_free(set);
    child.expect(test::v1_slot == nullptr, "a handle that was freed is in force");
    custom_labels_labelset_t* own = custom_labels_new(0);
    child.expect(own != nullptr && custom_labels_replace(own) == nullptr, "no handle of its own");
  }));
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));
  custom_labels_replace(nullptr);
  custom_labels_free(set);
}

TEST(Fork, AHandleFreedWhileInForceGoesAwayInTheChild) {
  custom_labels_labelset_t* set = custom_labels_new(0);
  ASSERT_EQ(custom_labels_set(set, str("tenant"), str("acme"), nullptr), 0);
  std::atomic<int> step{0};
  std::thread other([&] {
    custom_labels_replace(set);
    step = 1;
    while (step != 2) usleep(100);
    EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));
    custom_labels_replace(nullptr);
  });
  while (step != 1) usleep(100);
  custom_labels_replace(set);
  EXPECT_TRUE(InChild::run([&](InChild& child) {
    child.expect(test::v1_slot == nullptr, "in force in the child");
    custom_labels_free(set);  // another thread of the parent has it in force: it stays, harmlessly
    for (int i = 0; i < 20'000; ++i) {
      custom_labels_labelset_t* more = custom_labels_new(0);
      child.expect(more != nullptr, "no handle");
      custom_labels_free(more);
    }
  }));
  step = 2;
  other.join();
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));
  custom_labels_replace(nullptr);
  custom_labels_free(set);
}

void* fork_in_callback(void* data) {
  const pid_t pid = fork();
  if (pid == 0) {
    const bool none = test::v1_slot == nullptr;
    *static_cast<int*>(data) = none ? 1 : 2;
    return data;  // through run_with, in the child
  }
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  return data;
}

TEST(Fork, InACallbackOfRunWith) {
  custom_labels_labelset_t* set = custom_labels_new(0);
  ASSERT_EQ(custom_labels_set(set, str("tenant"), str("acme"), nullptr), 0);
  custom_labels_replace(set);
  custom_labels_label_t label{str("route"), str("/")};
  int in_child = 0;
  const int error = custom_labels_run_with(set, &label, 1, fork_in_callback, &in_child, nullptr);
  if (in_child != 0) _exit(in_child == 1 && error == 0 && test::v1_slot == nullptr ? 0 : 1);
  EXPECT_EQ(error, 0);
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));
  custom_labels_replace(nullptr);
  custom_labels_free(set);
}

TEST(Fork, ManyThreadsAtWorkMeanwhile) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&stop, t] {
      for (int i = 0; !stop; ++i) {
        Scope scope{tenant, std::to_string(i)};
        if (i % 64 == 0) (void)Key{"fork." + std::to_string(t) + "." + std::to_string(i % 640)};
        if (i % 256 == 0) std::thread([] { Scope short_lived{route, "/"}; }).join();
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(InChild::run([i](InChild& child) {
      alarm(20);
      child.expect(Key{"in child " + std::to_string(i)}.ok(), "no key");
      Scope scope{tenant, "child"};
      child.expect(scope.ok(), "no scope");
    }));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr bool stacks_serve_again = true;
#else
constexpr bool stacks_serve_again = false;
#endif

// The child's new threads get the stacks, and with them the thread pointers, of the parent's threads.
TEST(Fork, ThreadsOfTheChildAreNotTakenForThoseOfTheParent) {
  custom_labels_labelset_t* set = nullptr;
  pthread_t maker{};
  std::atomic<bool> made{false}, over{false};
  std::thread thread([&] {
    maker = pthread_self();
    set = custom_labels_new(0);
    custom_labels_set(set, str("tenant"), str("acme"), nullptr);
    custom_labels_replace(set);
    made = true;
    while (!over) usleep(1000);
  });
  while (!made) usleep(1000);
  EXPECT_TRUE(InChild::run([&](InChild& child) {
    alarm(20);
    bool same_pointer = false;
    for (int i = 0; i < 4; ++i) {
      std::thread([&] {
        same_pointer = same_pointer || pthread_equal(pthread_self(), maker) != 0;
        const auto* label = custom_labels_get(set, str("tenant"));
        child.expect(label != nullptr, "the set has lost its label");
        child.expect(custom_labels_set(set, str("tenant"), str("child"), nullptr) == 0, "no edit");
        child.expect(custom_labels_replace(set) == nullptr, "a new thread has a set in force");
        child.expect(test::v1_labels() == Labels{{"tenant", "child"}}, "not in force");
        child.expect(custom_labels_replace(nullptr) == set, "not in force before");
        custom_labels_labelset_t* own = custom_labels_new(0);
        child.expect(custom_labels_set(own, str("a"), str("b"), nullptr) == 0, "no set of its own");
        custom_labels_free(own);
      }).join();
    }
    child.expect(same_pointer || !stacks_serve_again,
                 "no thread has the pointer: nothing was tested");
  }));
  over = true;
  thread.join();
  EXPECT_EQ(custom_labels_get(set, str("tenant"))->value.len, 4U);
  custom_labels_free(set);
}

TEST(Fork, VforkIsHarmless) {
  Scope scope{tenant, "acme"};
  const pid_t pid = vfork();
  if (pid == 0) {
    execl("/bin/true", "true", nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));
}

pthread_key_t later;
const void* slot_at_end;
labels::Status status_at_end;

// Upstream defect 8: the slot of a thread that ends is left as it is.
TEST(ThreadExit, TakesTheLabelsDownFirst) {
  slot_at_end = &later;
  // Runs after the library's own, being made later.
  pthread_key_create(&later, [](void*) {
    slot_at_end = test::v1_slot;
    Scope scope{tenant, "too late"};
    status_at_end = scope.status();
  });
  std::thread([] {
    pthread_setspecific(later, &later);
    Scope before{tenant, "acme"};
    // Never put back: as a program does that leaves a set in force.
    custom_labels_replace(custom_labels_clone(custom_labels_current()));
    EXPECT_NE(test::v1_slot, nullptr);
  }).join();
  EXPECT_EQ(slot_at_end, nullptr);
  EXPECT_EQ(status_at_end, labels::Status::thread_exiting);
  pthread_key_delete(later);
}

// Upstream defect 8, too: whoever frees a set leaves it dangling where it is in force.
TEST(ThreadExit, ASetFreedByAnotherThreadStaysWholeWhileInForce) {
  custom_labels_labelset_t* set = custom_labels_new(0);
  ASSERT_EQ(custom_labels_set(set, str("tenant"), str("acme"), nullptr), 0);
  std::thread([&] {
    custom_labels_replace(set);
    std::thread([&] {
      custom_labels_free(set);
      // Use up what can be used again.
      for (int i = 0; i < 50'000; ++i) Scope scope{tenant, std::to_string(i)};
    }).join();
    for (int i = 0; i < 50'000; ++i) {
      custom_labels_labelset_t* other = custom_labels_clone(nullptr);
      custom_labels_set(other, str("tenant"), str("other"), nullptr);
      custom_labels_free(other);
    }
    EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));
  }).join();
}

// Sanitizers need the memory themselves.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

/// Lines of /proc/self/maps.
long mappings() {
  std::ifstream maps("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
}

/// Resident KiB of the process. The sum over its page tables: counters of the kernel may be behind by some pages for
/// each thread. 0: not known, or it includes memory of an emulator.
long resident_kib() {
  if (VITRINE_EMULATED) return 0;
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    long kib = 0;
    if (word == "Rss:" && file >> kib) return kib;
  }
  return 0;
}

/// Uses each kind of memory that a thread may have of its own.
void use_all_kinds() {
  const Scope scope{tenant, "acme"};
  const labels::Set captured = labels::capture();
  custom_labels_labelset_t* set = custom_labels_new(1);
  EXPECT_TRUE(scope.ok() && captured.ok() && set != nullptr);
  EXPECT_EQ(custom_labels_set(set, str("tenant"), str("acme"), nullptr), 0);
  custom_labels_free(set);
}

/// Threads that live until the end of this object. Those of the constructor use no labels.
class LivingThreads {
 public:
  explicit LivingThreads(int count) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 * 1024);
    for (int i = 0; i < count; ++i) {
      pthread_t thread{};
      if (pthread_create(&thread, &small, run, this) == 0) threads_.push_back(thread);
    }
    pthread_attr_destroy(&small);
    await_all();
  }
  LivingThreads(const LivingThreads&) = delete;
  LivingThreads& operator=(const LivingThreads&) = delete;
  ~LivingThreads() {
    enter(Phase::over);
    for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
  }

  [[nodiscard]] long count() const { return static_cast<long>(threads_.size()); }
  void use_labels() {
    enter(Phase::use);
    await_all();
  }

 private:
  enum class Phase : std::uint8_t { start, use, over };

  static void* run(void* of) {
    auto& self = *static_cast<LivingThreads*>(of);
    self.note_done();
    self.phase_.wait(Phase::start);
    if (self.phase_ == Phase::over) return nullptr;
    use_all_kinds();
    self.note_done();
    self.phase_.wait(Phase::use);
    return nullptr;
  }
  void note_done() {
    ++done_;
    done_.notify_all();
  }
  void await_all() {
    for (long done = done_; done < count(); done = done_) done_.wait(done);
  }
  void enter(Phase phase) {
    done_ = 0;
    phase_ = phase;
    phase_.notify_all();
  }

  std::vector<pthread_t> threads_;
  std::atomic<long> done_{0};
  std::atomic<Phase> phase_{Phase::start};
};

// A process may have 65,530 mappings, and the stacks of threads need two each.
TEST(ManyThreads, HaveNoMappingsOfTheirOwn) {
  // The child takes over nothing of threads that ended before.
  EXPECT_TRUE(InChild::run([](InChild& child) {
    alarm(60);
    LivingThreads threads(500);
    child.expect(threads.count() == 500, "no threads");
    const long before = mappings();
    threads.use_labels();
    // 384 KiB of addresses each, from slabs that are as large as 8 MiB.
    child.expect(mappings() - before <= threads.count() / 10, "mappings for each thread");
  }));
}

TEST(ManyThreads, TouchFewPages) {
  if (resident_kib() == 0 || sysconf(_SC_PAGESIZE) != 4096) GTEST_SKIP() << "no pages to count";
  EXPECT_TRUE(InChild::run([](InChild& child) {
    alarm(60);
    LivingThreads threads(500);
    const long before = resident_kib();
    threads.use_labels();
    // Three of the arena, one for each kind of cells, and those of the stack that are touched now.
    child.expect(resident_kib() - before <= threads.count() * 28, "more than seven pages a thread");
  }));
}

// Those that ended within a twentieth of a second wait for an observer that may still follow a pointer.
// How many these are depends on the machine, and on what else it does; all that end in a second are
// several times more.
TEST(ManyThreads, ThatComeAndGoLeaveLittleMemory) {
  using Clock = std::chrono::steady_clock;
  const long before = resident_kib();
  if (before == 0) GTEST_SKIP() << "no /proc/self/smaps_rollup";
  std::array<std::atomic<long>, 20> ended{};  // in each twentieth
  std::vector<std::thread> starters;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 4; ++i) {
    starters.emplace_back([&] {
      for (std::size_t now = 0; now < ended.size();) {
        std::thread(use_all_kinds).join();
        now = static_cast<std::size_t>((Clock::now() - start) / std::chrono::milliseconds(50));
        if (now < ended.size()) ++ended[now];
      }
    });
  }
  for (std::thread& starter : starters) starter.join();
  long most = 0;
  for (std::size_t at = 2; at < ended.size(); ++at)
    most = std::max(most, ended[at - 2] + ended[at - 1] + ended[at]);
  // Each had 20 KiB and more. What the first ones brought (stacks, slabs) is of any number of threads.
  EXPECT_LT(resident_kib() - before, most * 28 + 4000);
}

/// Lets the process have no more memory than it has now.
void stop_memory() {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_AS, &none);
}

// Upstream defect 7: when memory runs out a set loses its storage.
TEST(OutOfMemory, ChangesNothing) {
  EXPECT_TRUE(InChild::run([](InChild& child) {
    custom_labels_labelset_t* set = custom_labels_new(0);
    custom_labels_set(set, str("first"), str("label"), nullptr);
    custom_labels_replace(set);
    static std::string large(60'000, 'x');
    stop_memory();
    // Sets held for good, until the arena cannot grow.
    static custom_labels_labelset_t* held[4096];
    int count = 0;
    while (count < 4096 && (held[count] = custom_labels_clone(set)) != nullptr) ++count;
    child.expect(count > 0 && count < 4096, "memory did not run out");
    child.expect(errno == ENOMEM, "errno of a clone");
    int error = 0;
    for (int i = 0; i < 100 && error == 0; ++i) {
      char key[2] = {static_cast<char>('a' + i % 26), static_cast<char>('a' + i / 26)};
      error =
          custom_labels_set(set, {2, reinterpret_cast<unsigned char*>(key)}, str(large), nullptr);
    }
    child.expect(error == ENOMEM || error == EMSGSIZE, "a large set did not fail");
    const auto* label = custom_labels_get(set, str("first"));
    child.expect(label != nullptr && label->value.len == 5, "the set lost a label");
    const auto* before = test::v1_slot;
    bool failed = false;
    for (int i = 0; i < 4096 && !failed; ++i) {
      const labels::Set one = labels::Set::of({{tenant, std::string_view(large).substr(0, 1500)}});
      static labels::Set keep[4096];
      keep[i] = one;
      Scope scope{tenant, large};
      failed = !scope.ok();
      if (failed) {
        child.expect(scope.status() == labels::Status::out_of_memory, "status of a scope");
        child.expect(test::v1_slot == before, "a scope that failed changed what is in force");
      }
    }
    child.expect(failed, "scopes never failed");
    for (int i = 0; i < count; ++i) custom_labels_free(held[i]);
    Scope again{tenant, "acme"};
    child.expect(again.ok(), "memory that was given back was not found");
  }));
}

#endif

}  // namespace
}  // namespace vitrine
