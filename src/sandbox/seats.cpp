#include "sandbox/seats.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace vitrine::sandbox {

class Seats {
 public:
  static Seats& all() { return PerProcess<Seats>::get(); }

  void add(Seat& seat) {
    const std::lock_guard lock(mutex_);
    seats_.push_back(&seat);
  }
  void remove(Seat& seat) {
    const std::lock_guard lock(mutex_);
    std::erase(seats_, &seat);
    changed_.notify_all();
  }

  void reserve(bool waits) {
    constexpr std::chrono::seconds longest_wait(2);
    constexpr std::chrono::milliseconds between_looks(1);  // many releases: none notifies
    const auto until = Seat::Clock::now() + longest_wait;
    std::unique_lock lock(mutex_);
    while (Child::alive() + reserved_ >= max_children) {
      const auto now = Seat::Clock::now();
      if (Seat* const one = to_end(now)) {
        static_cast<void>(end(*one));
      } else if (now < until && can_become_free(waits)) {
        changed_.wait_for(lock, between_looks);
      } else {
        break;
      }
    }
    ++reserved_;
  }
  void give_back() {
    const std::lock_guard lock(mutex_);
    --reserved_;
    changed_.notify_all();
  }

  void end_idle() {
    const std::lock_guard lock(mutex_);
    const auto now = Seat::Clock::now();
    for (Seat* seat : seats_)
      if (now - seat->since_.load() >= seat->idle_) static_cast<void>(end(*seat));
  }
  void end_unclaimed() {
    const std::lock_guard lock(mutex_);
    for (Seat* seat : seats_) static_cast<void>(end(*seat));
  }

 private:
  using State = Seat::State;

  /// False: it is claimed, or has ended.
  static bool end(Seat& seat) {
    State idle = State::idle;
    if (!seat.state_.compare_exchange_strong(idle, State::ended)) return false;
    seat.ended_ = seat.process_.end_for_owner();
    return true;
  }

  /// Null: there is none now.
  Seat* to_end(Seat::Clock::time_point now) {
    constexpr std::chrono::milliseconds of_no_use(2), slice(50);
    Seat* found = nullptr;
    const auto comes_first = [](const Seat& a, const Seat& b) {
      if (a.kind_ != b.kind_) return a.kind_ == Seat::Kind::worker;
      return a.since_.load() < b.since_.load();
    };
    for (Seat* seat : seats_) {
      if (seat->state_.load() != State::idle) continue;
      if (now - seat->since_.load() < of_no_use && now - seat->begun_ < slice) continue;
      if (found == nullptr || comes_first(*seat, *found)) found = seat;
    }
    return found;
  }

  /// `waits`: also for what is claimed.
  bool can_become_free(bool waits) {
    const pthread_t self = ::pthread_self();
    return (waits && reserved_ > 0) || std::ranges::any_of(seats_, [&](const Seat* seat) {
             const State state = seat->state_.load();
             return state == State::idle ||
                    (waits && state == State::claimed && seat->claimed_by_.load() != self);
           });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Seat*> seats_;
  int reserved_ = 0;
};

Seat::Seat(Kind kind, Child process, std::chrono::milliseconds idle)
    : all_(Seats::all()), kind_(kind), process_(std::move(process)), idle_(idle) {
  all_.add(*this);
}

Seat::~Seat() {
  if (!owner_.is_here()) return;
  all_.remove(*this);
  if (ended_) Child::take_account(*ended_);
}

bool Seat::claim() {
  if (!owner_.is_here()) return false;
  State state = State::idle;
  const bool is_claimed = state_.compare_exchange_strong(state, State::claimed);
  if (is_claimed) claimed_by_ = ::pthread_self();
  return is_claimed || state == State::claimed;
}

void Seat::release() {
  since_ = Clock::now();
  State claimed = State::claimed;
  state_.compare_exchange_strong(claimed, State::idle);
}

SeatReservation::SeatReservation(bool waits) {
  Seats::all().reserve(waits);
}

SeatReservation::~SeatReservation() {
  Seats::all().give_back();
}

void end_idle_workers() {
  Seats::all().end_idle();
}

void end_unclaimed() {
  Seats::all().end_unclaimed();
}

}  // namespace vitrine::sandbox
