// How many processes there are at once, whatever threads ask of their workers; and that those which are
// ended to make room, or because nobody asks them, cost no request.
#include "sandbox/seats.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "sandbox/child_process.hpp"
#include "sandbox/worker.hpp"
#include "support/own_children.hpp"

namespace vitrine::sandbox {
namespace {

using namespace std::chrono_literals;

std::size_t count_children() {
  return test::children().size();
}
constexpr auto most_children = static_cast<std::size_t>(max_children);

/// How often this worker was asked.
Result<int> count_requests(const Nothing&, FileDescriptor) {
  static int count = 0;
  return ++count;
}

Result<int> work(const int& number, FileDescriptor) {
  std::this_thread::yield();
  return number * 2;
}

TEST(Seats, AreTakenFromWorkersThatNobodyAsks) {
  std::list<Parser> parsers(12);
  for (int round = 0; round < 3; ++round)
    for (Parser& parser : parsers) {
      EXPECT_EQ(parser.ask<&work>(21, -1).value(), 42);
      EXPECT_LE(count_children(), most_children);
    }
  parsers.clear();
  EXPECT_EQ(count_children(), 0U);
  EXPECT_EQ(Child::alive(), 0);
}

TEST(Seats, OfAWorkerThatIsHeldAreNotTaken) {
  Parser kept;
  const auto held = kept.hold();
  ASSERT_TRUE(held);
  const auto number = kept.worker_number();
  ASSERT_NE(number, 0U);
  EXPECT_EQ(kept.ask<&count_requests>({}, -1).value(), 1);
  std::list<Parser> others(12);
  for (Parser& other : others) EXPECT_EQ(other.ask<&count_requests>({}, -1).value(), 1);
  EXPECT_EQ(kept.ask<&count_requests>({}, -1).value(), 2);
  EXPECT_EQ(kept.worker_number(), number);
  EXPECT_LE(count_children(), most_children);
}

TEST(Seats, OfIdleWorkersAreGivenBack) {
  Limits brief, patient;
  brief.idle = 0ms;
  patient.idle = 1h;
  Parser first(brief), second(patient);
  EXPECT_EQ(first.ask<&count_requests>({}, -1).value(), 1);
  EXPECT_EQ(second.ask<&count_requests>({}, -1).value(), 1);
  {
    const auto held = first.hold();
    end_idle_workers();
    EXPECT_EQ(count_children(), 2U);
  }
  end_idle_workers();
  EXPECT_EQ(count_children(), 1U);
  EXPECT_EQ(first.ask<&count_requests>({}, -1).value(), 1);  // by another one
  EXPECT_EQ(second.ask<&count_requests>({}, -1).value(), 2);
}

/// Threads that ask, hold and wait in a random order, and one that ends what is idle.
TEST(Seats, AreBoundedWhateverThreadsDo) {
  std::atomic<int> most{0}, wrong{0}, running{8};
  std::vector<std::jthread> threads;
  for (unsigned seed = 0; seed < 8; ++seed)
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      Limits limits;
      limits.idle = std::chrono::milliseconds(random() % 20);
      Parser parser(limits);
      for (int n = 0; n < 60; ++n) {
        if (random() % 4 == 0) {
          const auto held = parser.hold();
          const int before = parser.ask<&count_requests>({}, -1).value_or(0);
          if (parser.ask<&count_requests>({}, -1).value_or(0) != before + 1) ++wrong;
        } else if (parser.ask<&work>(n, -1).value_or(-1) != n * 2) {
          ++wrong;
        }
        if (random() % 3 == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      }
      --running;
    });
  while (running > 0) {
    most = std::max(most.load(), Child::alive());
    end_idle_workers();
    std::this_thread::sleep_for(200us);
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(most, max_children);
  EXPECT_EQ(count_children(), 0U);
}

/// A process that costs little to start.
Child waiting_child() {
  return Child::start(Kind::quiet,
                      [] {
                        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
                        for (;;) ::pause();
                      })
      .value();
}

/// Alive, and not a zombie.
bool runs(const Child& child) {
  pollfd ended{child.handle(), POLLIN, 0};
  return child && ::poll(&ended, 1, 0) == 0;
}

/// The owner of one seat, and what it knows of it without asking: the reference. A seat that it has claimed is there, with
/// the same process, until it releases it; one that is gone has no process, and is never there again.
class SeatOwner {
 public:
  explicit SeatOwner(unsigned seed) : random_(seed) {}

  void act() {
    if (!seat_) return start();
    switch (random_() % 8) {
      case 0:
        return seat_.reset();
      case 1:
      case 2:
        return check_and_release();
      case 3:
        return sleep();
      default:
        return claim();
    }
  }
  [[nodiscard]] bool holds() const { return is_claimed_; }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  void start() {
    SeatReservation reserved;
    if (random_() % 8 == 0) return;  // it could not be started
    Child child = waiting_child();
    pid_ = child.pid();
    seat_ = std::make_unique<Seat>(reserved,
                                   random_() % 2 == 0 ? Seat::Kind::worker : Seat::Kind::reader,
                                   std::move(child), std::chrono::milliseconds(random_() % 5));
    is_claimed_ = true;
    is_gone_ = false;
  }
  void claim() {
    const bool got = seat_->claim();
    if (is_claimed_ && !got) problem_ = "a claimed seat was lost";
    if (is_gone_ && got) problem_ = "a seat that was ended came back";
    is_claimed_ = got;
    is_gone_ = !got;
    if (got) check();
    if (!got && random_() % 2 == 0) seat_.reset();  // else it is asked for again
  }
  void check() {
    if (seat_->process().pid() != pid_ || !runs(seat_->process()))
      problem_ = "the process of a claimed seat was ended";
  }
  void check_and_release() {
    if (is_claimed_) check();
    seat_->release();
    is_claimed_ = false;
  }
  void sleep() { std::this_thread::sleep_for(std::chrono::microseconds(random_() % 3000)); }

  std::mt19937 random_;
  std::unique_ptr<Seat> seat_;
  bool is_claimed_ = false, is_gone_ = false;
  pid_t pid_ = -1;
  std::string problem_;
};

/// Threads that start, claim, use, release and end in a random order, while others end what nobody uses.
TEST(Seats, AreTheirOwnersWhileTheyAreClaimed) {
  std::atomic<int> running{8};
  std::vector<std::string> problems(8);
  std::vector<std::jthread> threads;
  for (unsigned seed = 0; seed < 8; ++seed)
    threads.emplace_back([&, seed] {
      SeatOwner owner(seed);
      // None keeps its seat while it waits for others: what then exceeds the bound does so for its time.
      for (int n = 0; n < 400 && owner.problem().empty(); ++n) owner.act();
      problems[seed] = owner.problem();
      --running;
    });
  threads.emplace_back([&] {
    for (std::mt19937 random(99); running > 0;) {
      random() % 8 == 0 ? end_unclaimed() : end_idle_workers();
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    }
  });
  std::size_t most = 0;
  int most_seats = 0;
  while (running > 0) {
    most = std::max(most, test::children_at_once().size());
    most_seats = std::max(most_seats, taken_seats());
    std::this_thread::sleep_for(200us);
  }
  threads.clear();
  for (const std::string& problem : problems) EXPECT_EQ(problem, "");
  EXPECT_LE(most, static_cast<std::size_t>(max_seats));
  EXPECT_LE(most_seats, max_seats);
  EXPECT_GE(most_seats, 2);
  EXPECT_EQ(taken_seats(), 0);
  EXPECT_EQ(count_children(), 0U);
}

/// Threads that use their processes all the time share the seats: none waits so long that it exceeds the bound.
TEST(Seats, HaveTurnsWhereAllAreInUse) {
  constexpr int users = 3 * max_seats;
  std::atomic<int> running{users};
  std::vector<std::jthread> threads;
  for (int i = 0; i < users; ++i)
    threads.emplace_back([&] {
      for (int turn = 0; turn < 3; ++turn) {
        SeatReservation reserved;
        Seat seat(reserved, Seat::Kind::reader, waiting_child(), 1h);
        do seat.release();
        while (seat.claim());  // until it is ended, for others
      }
      --running;
    });
  int most = 0;
  while (running > 0) {
    most = std::max(most, taken_seats());
    if (running <= max_seats) end_unclaimed();  // none waits any more
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(most, max_seats);
}

/// Signals of the host do not interrupt the end of a process.
TEST(Seats, AreGivenBackWhateverSignalsCome) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) {};
  ::sigaction(SIGALRM, &action, &before);
  const itimerval often{{0, 100}, {0, 100}}, never{};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  for (int i = 0; i < 200; ++i) {
    SeatReservation reserved;
    Seat seat(reserved, Seat::Kind::worker, waiting_child(), 0ms);
    seat.release();
    end_unclaimed();
    EXPECT_FALSE(seat.claim());
    EXPECT_EQ(Child::alive(), 0);
  }
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
  EXPECT_EQ(count_children(), 0U);
}

TEST(Seats, OfAForkAreItsOwn) {
  SeatReservation reserved;
  Seat seat(reserved, Seat::Kind::worker, waiting_child(), 1h);
  const pid_t pid = seat.process().pid();
  const int status = test::in_child([&] {
    if (seat.claim() || taken_seats() != 0) return 1;
    seat.release();
    end_unclaimed();
    std::list<Parser> parsers(2 * max_seats);
    for (Parser& parser : parsers)
      if (parser.ask<&work>(21, -1).value_or(0) != 42) return 2;
    seat.~Seat();
    return ::kill(pid, 0) == 0 ? 0 : 3;
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(seat.claim());
  EXPECT_TRUE(runs(seat.process()));
  EXPECT_EQ(taken_seats(), 1);
}

}  // namespace
}  // namespace vitrine::sandbox
