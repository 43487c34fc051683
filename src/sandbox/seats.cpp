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
    released_.notify_all();
  }
  bool claim(Seat& seat) {
    const std::lock_guard lock(mutex_);
    if (seat.ended_) return false;
    seat.is_claimed_ = true;
    return true;
  }
  void release(Seat& seat) {
    const std::lock_guard lock(mutex_);
    seat.is_claimed_ = false;
    seat.since_ = Seat::Clock::now();
    released_.notify_all();
  }

  void reserve(bool waits) {
    constexpr std::chrono::seconds longest_wait(2);
    const auto until = Seat::Clock::now() + longest_wait;
    std::unique_lock lock(mutex_);
    while (Child::alive() + reserved_ >= max_children) {
      if (Seat* idle = longest_idle()) {
        idle->ended_ = idle->process_.end_for_owner();
      } else if (!waits || released_.wait_until(lock, until) == std::cv_status::timeout) {
        break;
      }
    }
    ++reserved_;
  }
  void give_back() {
    const std::lock_guard lock(mutex_);
    --reserved_;
    released_.notify_all();
  }

  void end_idle() {
    const std::lock_guard lock(mutex_);
    const auto now = Seat::Clock::now();
    for (Seat* seat : seats_)
      if (is_idle(*seat) && now - seat->since_ >= seat->idle_)
        seat->ended_ = seat->process_.end_for_owner();
  }

 private:
  static bool is_idle(const Seat& seat) { return !seat.is_claimed_ && !seat.ended_; }

  Seat* longest_idle() {
    Seat* found = nullptr;
    for (Seat* seat : seats_)
      if (is_idle(*seat) && (found == nullptr || seat->since_ < found->since_)) found = seat;
    return found;
  }

  std::mutex mutex_;
  std::condition_variable released_;
  std::vector<Seat*> seats_;
  int reserved_ = 0;
};

Seat::Seat(Child process, std::chrono::milliseconds idle)
    : process_(std::move(process)), idle_(idle) {
  Seats::all().add(*this);
}

Seat::~Seat() {
  Seats::all().remove(*this);
  if (ended_ && owner_.is_here()) Child::take_account(*ended_);
}

bool Seat::claim() {
  return owner_.is_here() && Seats::all().claim(*this);
}

void Seat::release() {
  if (!owner_.is_here()) return;
  Seats::all().release(*this);
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

}  // namespace vitrine::sandbox
