// ProcessRegistry: the processes that a trace or a profile observes, one entry for each.
//
// Records of the kernel and process events name a process by its PID, which is another process's
// soon after it has ended. Records carry the start time of their process, too; events do not.
// Records of a process that has ended can arrive after the fork of the next one with its PID. For
// each PID the registry therefore keeps the process that has it now, and for a while the one
// before. It is the only place that decides which of the two a record or an event is of.
//
// What a session knows of a process (where its labels are, its code, the names of its addresses)
// is in the entry: it begins, is inherited by a child, and ends with it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/file_descriptor.hpp"
#include "bpf/wire/event.h"

namespace vitrine::observe {

/// One process. Each kind of session derives its own.
class ObservedProcess : public std::enable_shared_from_this<ObservedProcess> {
 public:
  ObservedProcess() = default;
  ObservedProcess(const ObservedProcess&) = delete;
  ObservedProcess& operator=(const ObservedProcess&) = delete;
  virtual ~ObservedProcess() = default;

  /// What holds for a child that it has just forked, until that one is looked at.
  [[nodiscard]] virtual std::shared_ptr<ObservedProcess> child(pid_t pid) const = 0;

  /// 0: not visible in our PID namespace.
  [[nodiscard]] pid_t pid() const { return number_ > 0 ? number_ : 0; }
  /// Whether /proc/PID is this process, as far as is known: false once another one has its PID.
  [[nodiscard]] bool has_pid() const { return number_ > 0 && !superseded_; }
  /// Whether the session is about this process, which lives.
  [[nodiscard]] bool is_target() const { return static_cast<bool>(pidfd_); }
  /// Whether, since the last call, another thread than the main one has executed a program: it is the main thread now,
  /// and what the kernel kept for the former one is gone.
  [[nodiscard]] bool take_main_thread_replaced() {
    return std::exchange(main_thread_replaced_, false);
  }

 private:
  friend class ProcessRegistry;
  friend class ProcessWatch;
  using Clock = std::chrono::steady_clock;

  // Of the registry. Times of records and events are of CLOCK_MONOTONIC.
  pid_t number_ = 0;             ///< PID; of a process that is not visible: minus the kernel's
  std::uint64_t start_ns_ = 0;   ///< as records have it; 0: there was no record yet
  std::uint64_t record_ns_ = 0;  ///< of the record that `start_ns_` is from
  std::uint64_t since_ns_ = 0;   ///< it began then (its fork), or later; 0: that is not known
  std::uint64_t there_ns_ = 0;   ///< it was there then, however late its fork is reported
  bool by_record_ = false;       ///< a record was the first that was seen of it
  bool superseded_ = false;      ///< another process has its PID
  std::uint64_t superseded_ns_ = 0;
  bool ending_ = false;  ///< it has ended, and its last records are waited for

  // Of ProcessWatch:
  FileDescriptor pidfd_;            ///< of a target that lives
  bool followed_ = false;           ///< it is or was a target, or was forked by such a process
  bool changed_ = false;            ///< it has executed or mapped something since it was looked at
  bool main_thread_ended_ = false;  ///< and the process has executed nothing since
  bool main_thread_replaced_ = false;  ///< see take_main_thread_replaced()
  Clock::time_point next_look_{};      ///< {}: there is none to come
  std::size_t looks_ = 0;              ///< since it changed
};

class ProcessRegistry {
 public:
  using Clock = std::chrono::steady_clock;
  using Process = std::shared_ptr<ObservedProcess>;

  /// How long the last records of a process may take, and its forks on other CPUs.
  static constexpr std::chrono::milliseconds time_to_drain{1000};

  /// `make`: an entry that holds nothing yet. `most`: entries at once.
  ProcessRegistry(std::function<Process()> make, std::size_t most)
      : make_(std::move(make)), most_(most) {}

  // Lookups. What they return stays until take_departed().

  /// The process that has this PID now; null: not observed.
  [[nodiscard]] ObservedProcess* find(pid_t pid) const;
  /// The process that a record is of; null: not observed.
  ObservedProcess* find(const vitrine_event_header& record);

  /// As find(), and begins to observe it. Null: there are too many.
  ObservedProcess* observe(pid_t pid);
  ObservedProcess* observe(const vitrine_event_header& record);
  /// Of a PID that is not observed yet: the process that has it, and had it at that time.
  ObservedProcess* observe(pid_t pid, std::uint64_t there_ns);

  // What happens to processes; `time_ns`: when.

  /// `child` is a new process, which is observed if its parent is. Returns it; null: it is not. A
  /// target that has ended must have been reported before.
  ObservedProcess* forked(pid_t parent, pid_t child, std::uint64_t time_ns);
  /// The end of a target is seen by its pidfd instead.
  void exited(pid_t pid, std::uint64_t time_ns);
  void exited(ObservedProcess& process);

  /// Removes those that ended `time_to_drain` ago, and returns them. `taken_until`: later records have not
  /// been taken yet, and may be theirs.
  std::vector<Process> take_departed(Clock::time_point now, Clock::time_point taken_until);

  void for_each(const std::function<void(ObservedProcess&)>& visit) const;
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  /// Of one PID.
  struct Slot {
    Process now;
    Process before;
  };

  Process make(pid_t number);
  void supersede(Slot& slot, std::uint64_t time_ns);
  void put_before(Slot& slot, Process process);

  std::function<Process()> make_;
  std::size_t most_;
  std::map<pid_t, Slot> slots_;
  std::size_t size_ = 0;        ///< processes in slots_
  std::vector<Process> ended_;  ///< since the last take_departed()
  std::deque<std::pair<Clock::time_point, Process>> draining_;
};

}  // namespace vitrine::observe
