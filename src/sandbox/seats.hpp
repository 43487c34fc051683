// Seats: how many child processes vitrine has at once.
//
// Threads start children on their own: memory readers and workers. Without a common bound their number would
// grow with the threads and with the files that are open. Each of these processes has a seat, and there are so many
// seats. Where all are taken, a process that has no request makes room for another child: its owner starts another
// one when it needs it. The file opener, of which there is one, has a place of its own: a thread that waited for its
// place would hold the opener's lock, which threads with claimed seats need.
//
// Ownership: a Seat is of the thread that asks its process. While it is claimed, from claim() to release(), its process
// is the owner's alone. In between, any thread that needs room may end the process, under the mutex of all
// seats; the owner notices at the next claim(). The states are idle, claimed and ended:
//
//   claimed -> idle -> claimed     by the owner, without a lock: memory is read a hundred thousand times a second
//   idle -> ended                  by a thread that has the mutex, and then ends the process; final
//
// Invariant: a process that is alive has a Seat that is in the list, or a SeatReservation while it starts. Its owner, too,
// ends it before its seat leaves the list. The only process without a seat is one that was killed and has not ended (it is
// in a system call that nothing interrupts): it would hold its seat for ever. (Nor has one that traces threads for
// the milliseconds of a snapshot.)
//
// Where there is no room, a process is ended that has been idle for some time, workers before memory readers, which have
// more to lose. If all are in use, again and again, each has its turn: it may be ended between two requests, when it has
// lived for a slice of time; the thread that releases it does so, if others wait. What waits for room waits only as
// long as something can become free (a claimed seat of its own thread cannot), and only for some seconds: two threads
// may each hold a seat that the other one waits for. A child more is better than none.
//
// Locks: the mutex of all seats is the innermost but that of abandoned children (Child). A thread may hold the lock of
// the file opener when it takes it, and never the other way round.
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

inline constexpr int max_seats = 4;
/// With the file opener. With the process itself: six.
inline constexpr int max_children = max_seats + 1;

class Seats;

/// Room for one more child: until it has its Seat, or this ends without that.
class SeatReservation {
 public:
  SeatReservation();
  ~SeatReservation();
  SeatReservation(const SeatReservation&) = delete;
  SeatReservation& operator=(const SeatReservation&) = delete;

 private:
  friend class Seats;
  bool is_used_ = false;
};

/// Of one process.
class Seat {
 public:
  using Clock = std::chrono::steady_clock;

  enum class Kind : std::uint8_t { worker, reader };

  /// `idle`: it may be ended when it has not been claimed for as long. Claimed, for its maker.
  Seat(SeatReservation& reserved, Kind kind, Child process, std::chrono::milliseconds idle);
  /// Ends the process.
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
  std::atomic<State> state_{State::claimed};
  std::atomic<Clock::time_point> since_{begun_};  ///< when it was released
  std::atomic<pthread_t> claimed_by_{::pthread_self()};
  std::optional<EndedChild> ended_;  ///< by others; under the mutex
};

/// Ends the processes that have been idle for as long as they may be.
void end_idle_workers();

/// Ends those that have no request, however long.
void end_unclaimed();

/// How many are taken or reserved, in this process.
int taken_seats();

}  // namespace vitrine::sandbox
