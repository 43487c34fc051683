// Seats: how many child processes vitrine has at once.
//
// Threads start children on their own: a memory reader, a file opener, workers. Without a common bound
// their number would grow with the threads and with the files that are open. Here a worker that
// has no request makes room for another child: its owner starts another one when it needs it.
//
// A worker is busy from claim() to release(), which its owner calls, and is ended by others only in
// between. All of a Seat is under one mutex, but a busy one's process is its owner's alone.
//
// All of this is of one process. A fork has no seats at first: a copy of a Seat cannot be claimed there, and only forgets
// its process when it ends (base/own_process.hpp).
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "sandbox/child.hpp"

namespace vitrine::sandbox {

/// With the process itself: six.
inline constexpr int max_children = 5;

/// Of one worker.
class Seat {
 public:
  using Clock = std::chrono::steady_clock;

  /// `idle`: it may be ended when it has not been claimed for as long. Not claimed.
  Seat(Child process, std::chrono::milliseconds idle);
  ~Seat();
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  /// False: it is gone, or is that of another process; its owner needs another one.
  bool claim();
  void release();
  [[nodiscard]] bool is_claimed() const { return is_claimed_; }
  /// False: this process was forked from the one that has it.
  [[nodiscard]] bool is_own() const { return owner_.is_here(); }

  /// While it is claimed, and of its owner.
  Child& process() { return process_; }

 private:
  friend class Seats;
  OwnProcess owner_;
  Child process_;
  std::chrono::milliseconds idle_;
  bool is_claimed_ = false;
  Clock::time_point since_ = Clock::now();  ///< when it was released
  std::optional<EndedChild> ended_;         ///< by others
};

/// Room for one more child, until this ends: what was started by then counts by itself.
class SeatReservation {
 public:
  /// `waits`: for a busy worker, if there is no other room, but not for long: a child more is better
  /// than none.
  explicit SeatReservation(bool waits);
  ~SeatReservation();
  SeatReservation(const SeatReservation&) = delete;
  SeatReservation& operator=(const SeatReservation&) = delete;
};

/// Ends the workers that have been idle for as long as they may be.
void end_idle_workers();

}  // namespace vitrine::sandbox
