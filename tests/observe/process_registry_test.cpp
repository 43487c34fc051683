// The registry of observed processes: against what happened in a small world of processes that come,
// go and take over PIDs, while records and events of them arrive late.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "observe/process/registry.hpp"
#include "observe/process/watch.hpp"
#include "support/child.hpp"

namespace vitrine::observe {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t ms = 1'000'000;
constexpr std::uint64_t drain_ns = ProcessRegistry::time_to_drain / milliseconds(1) * ms;

/// What a session would know of a process: which one it is, and what it executes.
struct Entry final : ObservedProcess {
  std::optional<std::size_t> life;    ///< whose records it was given
  std::optional<std::size_t> parent;  ///< of which life it was made a child
  std::optional<int> program;
  bool made_late = false;  ///< after the process had ended

  [[nodiscard]] std::shared_ptr<ObservedProcess> child(pid_t) const override {
    auto its = std::make_shared<Entry>();
    if (made_late) return its;  // another may have its PID, unseen, and fork
    its->parent = life;
    its->program = program;
    return its;
  }
};

Entry* entry(ObservedProcess* process) {
  return static_cast<Entry*>(process);
}

ProcessRegistry registry_of(std::size_t most) {
  return {[] { return std::make_shared<Entry>(); }, most};
}

ProcessRegistry::Clock::time_point at(std::uint64_t ns) {
  return ProcessRegistry::Clock::time_point(std::chrono::nanoseconds(ns));
}

vitrine_event_header record_of(pid_t pid, std::uint64_t start_ns, std::uint64_t time_ns) {
  vitrine_event_header record{};
  record.pid = pid;
  record.kernel_tgid = pid + 1000;
  record.process_start_ns = start_ns;
  record.time_ns = time_ns;
  return record;
}

TEST(ProcessRegistry, TakesAnotherStartTimeForAnotherProcess) {
  ProcessRegistry registry = registry_of(10);
  ObservedProcess* first = registry.observe(record_of(7, 100, 150));
  EXPECT_EQ(registry.observe(record_of(7, 100, 160)), first);
  ObservedProcess* second = registry.observe(record_of(7, 200, 250));
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first);
  EXPECT_FALSE(first->has_pid());
  EXPECT_TRUE(second->has_pid());
  // A late one is of the first, whose entry waits for such.
  EXPECT_EQ(registry.find(record_of(7, 100, 190)), first);
  EXPECT_EQ(registry.find(7), second);
}

TEST(ProcessRegistry, KnowsALateRecordByTheForkOfTheNextProcess) {
  ProcessRegistry registry = registry_of(10);
  registry.observe(1);
  ObservedProcess* first = registry.observe(7);  // no record: its start time is not known
  ObservedProcess* second = registry.forked(1, 7, 300);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(registry.find(record_of(7, 100, 299)), first);
  EXPECT_EQ(registry.find(record_of(7, 300, 301)), second);
}

TEST(ProcessRegistry, ForkOfAProcessSeenAlreadyIsNoOtherProcess) {
  ProcessRegistry registry = registry_of(10);
  registry.observe(1);
  ObservedProcess* seen = registry.observe(record_of(7, 300, 310));
  EXPECT_EQ(registry.forked(1, 7, 300), seen);
  EXPECT_TRUE(seen->has_pid());
}

TEST(ProcessRegistry, ForkOfAProcessThatWasThereAfterwardsIsItsOwn) {
  ProcessRegistry registry = registry_of(10);
  registry.observe(1);
  ObservedProcess* begun = registry.observe(7, 310);
  registry.forked(1, 7, 300);  // told late: it may have ended by now
  EXPECT_EQ(registry.find(7), begun);
  EXPECT_EQ(registry.find(record_of(7, 300, 320)), begun);
  EXPECT_NE(registry.forked(1, 7, 400), begun);
}

TEST(ProcessRegistry, GivesARecordBackThatCameBeforeTheFork) {
  ProcessRegistry registry = registry_of(10);
  registry.observe(1);
  ObservedProcess* first = registry.observe(7);
  EXPECT_EQ(registry.find(record_of(7, 300, 310)), first);  // nothing says otherwise yet
  ObservedProcess* second = registry.forked(1, 7, 300);
  EXPECT_NE(second, first);
  EXPECT_EQ(registry.find(record_of(7, 300, 310)), second);
}

TEST(ProcessRegistry, AnEndIsOfTheProcessThatHadThePidThen) {
  ProcessRegistry registry = registry_of(10);
  registry.observe(1);
  registry.observe(7);
  ObservedProcess* second = registry.forked(1, 7, 300);
  registry.exited(7, 299);  // told late
  EXPECT_EQ(registry.take_departed(at(0), at(0)).size(), 0U);
  EXPECT_EQ(registry.take_departed(at(drain_ns), at(drain_ns)).size(), 1U);
  EXPECT_EQ(registry.find(7), second);
  EXPECT_EQ(registry.size(), 2U);
}

TEST(ProcessRegistry, KeepsAProcessWhoseLastRecordsWaitToBeTaken) {
  ProcessRegistry registry = registry_of(10);
  ObservedProcess* process = registry.observe(7);
  registry.exited(7, 1000);
  EXPECT_EQ(registry.take_departed(at(1000), at(500)).size(), 0U);
  EXPECT_EQ(registry.take_departed(at(1000 + 3 * drain_ns), at(999)).size(), 0U);
  EXPECT_EQ(registry.find(record_of(7, 100, 990)), process);
  EXPECT_EQ(registry.take_departed(at(1000 + 3 * drain_ns), at(1000)).size(), 1U);
}

TEST(ProcessRegistry, ProcessesThatAreNotVisibleHaveTheKernelsNumber) {
  ProcessRegistry registry = registry_of(10);
  vitrine_event_header record = record_of(0, 100, 150);
  ObservedProcess* hidden = registry.observe(record);
  ASSERT_NE(hidden, nullptr);
  EXPECT_EQ(hidden->pid(), 0);
  EXPECT_FALSE(hidden->has_pid());
  EXPECT_EQ(registry.find(record), hidden);
  record.kernel_tgid = 1001;
  EXPECT_EQ(registry.find(record), nullptr);
}

TEST(ProcessRegistry, TakesNoMoreThanItMay) {
  ProcessRegistry registry = registry_of(2);
  registry.observe(1);
  registry.observe(record_of(7, 100, 150));
  EXPECT_EQ(registry.observe(8), nullptr);
  EXPECT_EQ(registry.observe(record_of(7, 200, 250)), nullptr);
  EXPECT_EQ(registry.forked(1, 9, 300), nullptr);
  EXPECT_EQ(registry.size(), 2U);
  registry.exited(1, 400);
  registry.take_departed(at(0), at(0));
  EXPECT_EQ(registry.take_departed(at(drain_ns), at(drain_ns)).size(), 1U);
  EXPECT_NE(registry.observe(8), nullptr);
}

/// Processes as they are, and what a session is given of them, late but in order.
class World {
 public:
  explicit World(unsigned seed) : random_(seed), registry_(registry_of(1000)) {
    lives_.push_back({1, time_, {}, {}, {0}});  // nobody observes it
  }

  void step() {
    pass(below(20) * ms);
    switch (below(8)) {
      case 0:
      case 1:
        return fork();
      case 2:
        return execute();
      case 3:
        return exit();
      case 4:
        return look();
      case 5:
        return deliver_events();
      default:
        return record();
    }
  }

  /// All end, and nothing is left of them.
  void end() {
    for (std::size_t life = 1; life < lives_.size(); ++life)
      if (lives_[life].lives()) end(life);
    deliver_events();
    pass(1);
    pass(2 * drain_ns);
    EXPECT_EQ(registry_.size(), 0U);
  }

  [[nodiscard]] std::size_t reused() const { return reused_; }
  [[nodiscard]] std::size_t late() const { return late_; }
  [[nodiscard]] std::size_t inherited() const { return inherited_; }

 private:
  struct Life {
    pid_t pid;
    std::uint64_t start_ns;
    std::optional<std::size_t> parent;
    std::optional<std::uint64_t> end_ns{};
    std::set<int> programs{};  ///< that it has executed, or its parent had when it was forked
    Entry* entry = nullptr;    ///< that it was given last
    std::size_t heirs = 0;     ///< later ones with its PID whose forks were delivered
    bool fork_delivered = false;
    bool end_delivered = false;
    bool by_pid = false;  ///< neither its fork nor a record of it was seen
    [[nodiscard]] bool lives() const { return !end_ns; }
  };
  struct Event {
    enum class Kind { forked, executed, exited } kind;
    std::size_t life;
    std::uint64_t time_ns;
    int program = 0;  ///< of executed
  };

  std::size_t below(std::size_t number) {
    return std::uniform_int_distribution<std::size_t>(0, number - 1)(random_);
  }

  void pass(std::uint64_t time_ns) {
    time_ += time_ns;
    for (const auto& process : registry_.take_departed(at(time_), at(time_)))
      for (Life& life : lives_)
        if (life.entry == process.get()) {
          EXPECT_TRUE(life.end_ns) << "of PID " << life.pid;
          life.entry = nullptr;
        }
  }

  /// The life that has a PID.
  std::optional<std::size_t> holder(pid_t pid) const {
    for (std::size_t life = 0; life < lives_.size(); ++life)
      if (lives_[life].pid == pid && lives_[life].lives()) return life;
    return std::nullopt;
  }

  std::optional<std::size_t> any(bool alive) {
    std::vector<std::size_t> all;
    for (std::size_t life = 1; life < lives_.size(); ++life) {
      const Life& its = lives_[life];
      const bool late = its.end_ns && time_ < *its.end_ns + drain_ns / 2;
      if (alive ? its.lives() : its.lives() || late) all.push_back(life);
    }
    if (all.empty()) return std::nullopt;
    return all[below(all.size())];
  }

  void fork() {
    const auto pid = static_cast<pid_t>(2 + below(5));
    if (holder(pid)) return;
    const std::size_t parent = below(3) == 0 ? 0 : any(true).value_or(0);
    ++time_;
    const std::set<int> programs = lives_[parent].programs;
    for (const Life& other : lives_) reused_ += other.pid == pid;
    lives_.push_back({pid, time_, parent, {}, programs});
    events_.push_back({Event::Kind::forked, lives_.size() - 1, time_});
  }

  void execute() {
    const auto life = any(true);
    if (!life) return;
    lives_[*life].programs.insert(++programs_);
    events_.push_back({Event::Kind::executed, *life, ++time_, programs_});
  }

  void exit() {
    if (const auto life = any(true)) end(*life);
  }

  void end(std::size_t life) {
    lives_[life].end_ns = ++time_;
    events_.push_back({Event::Kind::exited, life, time_});
  }

  /// By its PID, as a target is.
  void look() {
    const auto life = any(true);
    if (!life) return;
    // Of one that nothing is known of, its fork and its exec may be told afterwards; PIDs do not come
    // again that soon.
    const auto is_of_before = [&](const Event& event) {
      return event.life != *life && (lives_[event.life].pid == lives_[*life].pid ||
                                     lives_[*lives_[event.life].parent].pid == lives_[*life].pid);
    };
    const bool is_new = registry_.find(lives_[*life].pid) == nullptr && below(4) == 0 &&
                        std::none_of(events_.begin(), events_.end(), is_of_before);
    if (!is_new) deliver_events();
    Entry* known = entry(registry_.find(lives_[*life].pid));
    if (known != nullptr && known->made_late) return;  // nothing has said that it lost its PID
    Entry* its = entry(is_new ? registry_.observe(lives_[*life].pid, time_)
                              : registry_.observe(lives_[*life].pid));
    ASSERT_NE(its, nullptr);
    lives_[*life].by_pid = lives_[*life].by_pid || known == nullptr;
    check(*life, its);
    its->program = *lives_[*life].programs.rbegin();
  }

  void record() {
    const auto life = any(false);
    if (!life) return;
    Life& its = lives_[*life];
    const std::uint64_t last = its.end_ns.value_or(time_);
    const std::uint64_t when = its.start_ns + below(last - its.start_ns + 1);
    const vitrine_event_header header = record_of(its.pid, its.start_ns, when);
    // Of a process that was never seen, nothing separates it from the next, if only the PID of that
    // one is known.
    for (std::size_t next = *life + 1; next < lives_.size() && its.entry == nullptr; ++next)
      if (lives_[next].pid == its.pid && lives_[next].by_pid) return;
    late_ += its.end_ns && holder(its.pid);
    // Before its fork is delivered, a process may be taken for the one before, if that had no record.
    // The fork corrects this.
    if (below(4) != 0) deliver_events();
    ObservedProcess* found = registry_.find(header);
    if (found != nullptr && !its.fork_delivered && its.entry == nullptr) return;
    if (found == nullptr) {
      deliver_events();
      found = registry_.find(header);
    }
    if (found == nullptr) {
      found = registry_.observe(header);
      ASSERT_NE(found, nullptr);
      if (its.end_delivered) {  // no event will end it, and another may have its PID unseen
        registry_.exited(*found);
        entry(found)->made_late = true;
        for (Life& other : lives_)  // there is room for one that had the PID before
          if (other.pid == its.pid && other.heirs > 0) other.entry = nullptr;
      }
    }
    check(*life, entry(found));
    its.by_pid = false;
  }

  /// What was given for `life`.
  void check(std::size_t life, Entry* found) {
    Life& its = lives_[life];
    if (its.entry != nullptr && its.heirs < 2) {
      EXPECT_EQ(found, its.entry) << "PID " << its.pid << " has another entry";
    }
    EXPECT_EQ(found->life.value_or(life), life) << "PID " << its.pid << " has that of another";
    EXPECT_EQ(found->parent.value_or(*its.parent), *its.parent);
    if (!found->made_late) {
      EXPECT_EQ(found->has_pid(), its.heirs == 0);
    }
    if (found->program) {
      EXPECT_TRUE(its.programs.contains(*found->program)) << "PID " << its.pid;
      inherited_ += found->parent.has_value();
    }
    found->life = life;
    its.entry = found;
  }

  void deliver_events() {
    for (; !events_.empty(); events_.pop_front()) {
      const Event& event = events_.front();
      Life& life = lives_[event.life];
      const pid_t pid = life.pid;
      if (event.kind == Event::Kind::forked) {
        ObservedProcess* child = registry_.forked(lives_[*life.parent].pid, pid, event.time_ns);
        life.fork_delivered = true;
        for (std::size_t other = 1; other < event.life; ++other)
          lives_[other].heirs += lives_[other].pid == pid;
        if (child != nullptr) check(event.life, entry(child));
      } else if (event.kind == Event::Kind::executed) {
        if (life.entry != nullptr && registry_.find(pid) == life.entry)
          life.entry->program = event.program;
      } else {
        registry_.exited(pid, event.time_ns);
        life.end_delivered = true;
      }
    }
  }

  std::mt19937 random_;
  ProcessRegistry registry_;
  std::uint64_t time_ = ms;
  int programs_ = 0;
  std::vector<Life> lives_;
  std::deque<Event> events_;
  std::size_t reused_ = 0, late_ = 0, inherited_ = 0;
};

TEST(ProcessRegistry, KeepsApartWhatComesAndGoesInAnyOrder) {
  std::size_t reused = 0, late = 0, inherited = 0;
  for (unsigned seed = 0; seed < 400 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    World world(seed);
    for (int i = 0; i < 400 && !testing::Test::HasFailure(); ++i) world.step();
    world.end();
    reused += world.reused();
    late += world.late();
    inherited += world.inherited();
  }
  // It was about something.
  EXPECT_GT(reused, 1000U);
  EXPECT_GT(late, 100U);
  EXPECT_GT(inherited, 1000U);
}

/// Counts the looks that are made some time after a change.
class LooksAgain final : public ProcessWatch::Listener {
 public:
  bool concerns(const target::ProcessEvent&) override { return false; }
  void changed(ObservedProcess&, bool again) override { count += again ? 1 : 0; }
  void departed(ObservedProcess&) override {}
  void note(std::string) override {}

  std::size_t count = 0;
};

// Else one that maps code without a pause would never be looked at.
TEST(ProcessWatch, AChangeDoesNotPostponeTheLookThatAnEarlierOneIsDue) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds first_look{2000}, between_changes{1500};
  const auto spin_until = [](Clock::time_point when) {
    while (Clock::now() < when) continue;
  };
  test::Child child = test::Child::spawn({"sleep", "100"});
  ProcessRegistry registry = registry_of(10);
  LooksAgain looks;
  ProcessWatch watch(registry, looks, false);
  ASSERT_TRUE(watch.add(child.pid()));
  ObservedProcess& process = *registry.find(child.pid());
  bool is_conclusive = false;
  for (int round = 0; round < 1000 && !is_conclusive; ++round) {
    watch.look_again_soon(process);
    for (const std::size_t seen = looks.count; looks.count == seen;) watch.look_again(0);
    const std::size_t seen = looks.count;
    const auto before_first = Clock::now();
    watch.look_again_soon(process);
    const auto after_first = Clock::now();
    spin_until(after_first + between_changes);
    const auto before_second = Clock::now();
    watch.look_again_soon(process);
    const auto after_second = Clock::now();
    spin_until(after_first + first_look);
    watch.look_again(0);
    // The first look is due, and one counted from the second change is not; where this thread lost its CPU for
    // too long, another round is needed.
    is_conclusive =
        after_second < before_first + first_look && Clock::now() < before_second + first_look;
    if (is_conclusive) {
      EXPECT_EQ(looks.count, seen + 1);
    }
  }
  EXPECT_TRUE(is_conclusive);
}

// Changes are taken before looks are made.
TEST(ProcessWatch, AChangeDoesNotPostponeALookThatIsDue) {
  test::Child child = test::Child::spawn({"sleep", "100"});
  ProcessRegistry registry = registry_of(10);
  LooksAgain looks;
  ProcessWatch watch(registry, looks, false);
  ASSERT_TRUE(watch.add(child.pid()));
  ObservedProcess& process = *registry.find(child.pid());
  for (std::size_t round = 1; round <= 10; ++round) {
    watch.look_again_soon(process);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    watch.look_again_soon(process);
    watch.look_again(0);
    EXPECT_EQ(looks.count, round);
  }
}

}  // namespace
}  // namespace vitrine::observe
