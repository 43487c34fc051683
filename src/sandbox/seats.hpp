// Seats: how many child processes vitrine has at once.
//
// Threads start children on their own: memory readers, a file opener, workers. Without a common bound their number would
// grow with the threads and with the files that are open. Here a process that has no request makes room for another
// child: its owner starts another one when it needs it. All but the file opener, of which there is one, have seats.
//
// Ownership: a Seat is of the thread that asks its process. While it is claimed, from claim() to release(), its process
// is the owner's alone. In between, any thread that needs room may end the process, under the mutex of all
// seats; the owner notices at the next claim(). The states are idle, claimed and ended:
//
//   idle -> claimed -> idle     by the owner, without a lock: memory is read a hundred thousand times a second
//   idle -> ended               by another thread, which then ends the process; final
//
// The end of a Seat takes the mutex, and so comes after an end of its process that is under way.
//
// Where there is no room, a process is ended that has been idle for some time, workers before memory readers, which have
// more to lose. If all are in use, again and again, each has its turn: it may be ended between two requests, when it has
// lived for a slice of time. What waits for room waits only as long as something can become free: a claimed seat of its
// own thread, or the file opener, cannot.
//
// All of this is of one process. A fork has no seats at first: a copy of a Seat cannot be claimed there, and only forgets
// its process when it ends (base/own_process.hpp).
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include "base/own_process.hpp"
#include "sandbox/child.hpp"

namespace vitrine::sandbox {

/// With the process itself: six.
inline constexpr int max_children = 5;

class Seats;

/// Of one process.
class Seat {
 public:
  using Clock = std::chrono::steady_clock;

  enum class Kind : std::uint8_t { worker, reader };

  /// `idle`: it may be ended when it has not been claimed for as long. Not claimed.
  Seat(Kind kind, Child process, std::chrono::milliseconds idle);
  ~Seat();
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  /// False: it is gone, or is that of another process; its owner needs another one.
  bool claim();
  void release();
  [[nodiscard]] bool is_claimed() const { return state_.load() == State::claimed; }
  /// False: this process was forked from the one that has it.
  [[nodiscard]] bool is_own() const { return owner_.is_here(); }

  /// While it is claimed, and of its owner.
  Child& process() { return process_; }

 private:
  friend class Seats;
  enum class State : std::uint8_t { idle, claimed, ended };

  OwnProcess owner_;
  Seats& all_;
  const Kind kind_;
  Child process_;
  const std::chrono::milliseconds idle_;
  const Clock::time_point begun_ = Clock::now();
  std::atomic<State> state_{State::idle};
  std::atomic<Clock::time_point> since_{begun_};  ///< when it was released
  std::atomic<pthread_t> claimed_by_{};
  std::optional<EndedChild> ended_;  ///< by others; under the mutex
};

/// Room for one more child, until this ends: what was started by then counts by itself.
class SeatReservation {
 public:
  /// `waits`: for a process that is in use, if there is no other room, but not for long: a child more is better
  /// than none.
  explicit SeatReservation(bool waits);
  ~SeatReservation();
  SeatReservation(const SeatReservation&) = delete;
  SeatReservation& operator=(const SeatReservation&) = delete;
};

/// Ends the processes that have been idle for as long as they may be.
void end_idle_workers();

/// Ends those that have no request, however long.
void end_unclaimed();

}  // namespace vitrine::sandbox
