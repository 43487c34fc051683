#include "sandbox/seats.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace vitrine::sandbox {

class Seats {
 public:
  static Seats& all() { return PerProcess<Seats>::get(); }

  void add(Seat& seat, SeatReservation& reserved) {
    const std::lock_guard lock(mutex_);
    seats_.push_back(&seat);
    --reserved_;
    reserved.is_used_ = true;
  }
  void remove(Seat& seat) {
    const std::lock_guard lock(mutex_);
    std::erase(seats_, &seat);
    changed_.notify_all();
  }

  /// In the order of the calls: a thread whose process was ended for others does not take its seat again at once.
  void reserve() {
    constexpr std::chrono::seconds longest_wait(2);
    constexpr std::chrono::milliseconds between_looks(1);  // time alone makes one idle enough
    const auto until = Seat::Clock::now() + longest_wait;
    std::unique_lock lock(mutex_);
    const pthread_t self = ::pthread_self();
    queue_.push_back(self);
    ++waiting_;
    const auto place = [&] { return std::ranges::find(queue_, self); };
    while (taken() + (place() - queue_.begin()) >= max_seats) {
      const auto now = Seat::Clock::now();
      if (Seat* const one = to_end(now)) {
        end_some([&](const Seat* seat) { return seat == one; });
      } else if (now < until && can_become_free(self)) {
        changed_.wait_for(lock, between_looks);
      } else {
        break;
      }
    }
    queue_.erase(place());
    --waiting_;
    ++reserved_;
  }
  void give_back(const SeatReservation& reserved) {
    if (reserved.is_used_) return;
    const std::lock_guard lock(mutex_);
    --reserved_;
    changed_.notify_all();
  }

  [[nodiscard]] bool has_waiting() const { return waiting_.load() > 0; }
  /// That of the calling thread, which has released it, for those that wait.
  void give_up(const Seat& own) {
    const std::lock_guard lock(mutex_);
    const bool is_needed = taken() + static_cast<int>(queue_.size()) > max_seats;
    if (!is_needed || !has_had_its_slice(own, Seat::Clock::now())) return;
    end_some([&](const Seat* seat) { return seat == &own; });
    changed_.notify_all();
  }

  void end_idle() {
    const std::lock_guard lock(mutex_);
    const auto now = Seat::Clock::now();
    end_some([&](const Seat* seat) { return now - seat->since_.load() >= seat->idle_; });
  }
  void end_unclaimed() {
    const std::lock_guard lock(mutex_);
    end_some([](const Seat*) { return true; });
  }

  int taken_or_reserved() {
    const std::lock_guard lock(mutex_);
    return taken();
  }

 private:
  using State = Seat::State;

  // All under the mutex.

  [[nodiscard]] int taken() const { return static_cast<int>(seats_.size()) + reserved_; }

  /// Those that are not claimed.
  template <class Wanted>
  void end_some(Wanted wanted) {
    std::erase_if(seats_, [&](Seat* seat) {
      State idle = State::idle;
      if (!wanted(seat) || !seat->state_.compare_exchange_strong(idle, State::ended)) return false;
      seat->ended_ = seat->process_.end_for_owner();
      return true;
    });
  }

  static bool has_had_its_slice(const Seat& seat, Seat::Clock::time_point now) {
    constexpr std::chrono::milliseconds slice(50);
    return now - seat.begun_ >= slice;
  }

  /// Null: there is none now.
  Seat* to_end(Seat::Clock::time_point now) {
    constexpr std::chrono::milliseconds of_no_use(2);
    Seat* found = nullptr;
    const auto comes_first = [](const Seat& a, const Seat& b) {
      if (a.kind_ != b.kind_) return a.kind_ == Seat::Kind::worker;
      return a.since_.load() < b.since_.load();
    };
    for (Seat* seat : seats_) {
      if (seat->state_.load() != State::idle) continue;
      if (now - seat->since_.load() < of_no_use && !has_had_its_slice(*seat, now)) continue;
      if (found == nullptr || comes_first(*seat, *found)) found = seat;
    }
    return found;
  }

  bool can_become_free(pthread_t self) {
    return reserved_ > 0 || std::ranges::any_of(seats_, [&](const Seat* seat) {
             return seat->state_.load() == State::idle || seat->claimed_by_.load() != self;
           });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Seat*> seats_;  ///< those that are not ended
  int reserved_ = 0;
  std::vector<pthread_t> queue_;  ///< threads in reserve(), the first comes first
  std::atomic<int> waiting_{0};   ///< as many, for threads without the mutex
};

Seat::Seat(SeatReservation& reserved, Kind kind, Child process, std::chrono::milliseconds idle)
    : all_(Seats::all()), kind_(kind), process_(std::move(process)), idle_(idle) {
  all_.add(*this, reserved);
}

Seat::~Seat() {
  if (!owner_.is_here()) return;
  if (claim()) process_.end();
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
  if (state_.compare_exchange_strong(claimed, State::idle) && all_.has_waiting() &&
      owner_.is_here())
    all_.give_up(*this);
}

SeatReservation::SeatReservation() {
  Seats::all().reserve();
}

SeatReservation::~SeatReservation() {
  Seats::all().give_back(*this);
}

void end_idle_workers() {
  Seats::all().end_idle();
}

void end_unclaimed() {
  Seats::all().end_unclaimed();
}

int taken_seats() {
  return Seats::all().taken_or_reserved();
}

}  // namespace vitrine::sandbox
