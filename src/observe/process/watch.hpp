// ProcessWatch: enters in the registry what happens to processes: those that a trace or a profile
// is about, the ones they start, and all others that it has met.
//
// Order of ends: the thread that collects events ends before these, as a later member. In a fork of the process there is
// no such thread to wait for (base/own_process.hpp).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/own_process.hpp"
#include "base/result.hpp"
#include "observe/process/launch.hpp"
#include "observe/process/registry.hpp"
#include "target/process_events.hpp"

namespace vitrine::observe {

class ProcessWatch {
 public:
  /// Of a session.
  class Listener {
   public:
    virtual ~Listener() = default;
    /// Whether to observe a process that is not yet observed, for what it has mapped or executed.
    virtual bool concerns(const target::ProcessEvent& event) = 0;
    /// It has executed or mapped something (`again`: a while ago, it may have been at it still).
    virtual void changed(ObservedProcess& process, bool again) = 0;
    /// The events themselves, at once and in order.
    virtual void executed(ObservedProcess& /*process*/, const target::ProcessEvent& /*event*/) {}
    virtual void mapped(ObservedProcess& /*process*/, const target::ProcessEvent& /*event*/) {}
    /// Some were lost.
    virtual void missed() {}
    /// It has ended, and its last records have been taken by now.
    virtual void departed(ObservedProcess& process) = 0;
    virtual void note(std::string text) = 0;
  };

  /// Begins to listen: what happens from now on is not missed. `follow`: what targets fork are
  /// targets. Both others must outlive this.
  ProcessWatch(ProcessRegistry& processes, Listener& listener, bool follow);

  /// Adds a target. Errors: not_found (also one that has ended); limit (too many processes).
  Result<void> add(pid_t pid);
  /// Adds those that are there, and notes the others. Errors: as add(); not_found: if none is.
  Result<void> add(std::span<const pid_t> pids);

  /// Starts a program, held before its first instruction where that is possible. Arguments and errors: as
  /// Launched.
  Result<void> launch(const std::vector<std::string>& command, bool to_stderr);
  /// Null: none was started.
  [[nodiscard]] Launched* launched() { return launched_ ? &*launched_ : nullptr; }

  /// Ends it, and notes when that took more than asking.
  void end_launched();

  /// Targets that live.
  [[nodiscard]] std::vector<ObservedProcess*> all() const;

  /// The process that a record is of, observed from now on. Null: there are too many.
  ObservedProcess* process_of(const vitrine_event_header& record);

  /// Takes what has happened, and calls the listener.
  void take_events();
  /// From now on a thread of its own makes room in the kernel's buffers, so that none are lost while
  /// the caller is at something else.
  void collect_in_background();
  /// Has the listener look once more where it is time to. `taken_until_ns`: of CLOCK_MONOTONIC; records of
  /// before then do not come any more.
  void look_again(std::uint64_t taken_until_ns);
  void look_again_soon(ObservedProcess& process);

  /// How long, at most, wait() lets events wait that follow one another, while none of them is of a process
  /// that is observed: without it, and where one is, no longer than where each is urgent.
  void set_longest_pause(std::chrono::milliseconds pause) { longest_pause_ = pause; }

  /// Others than targets are looked at less often after a change, and not at once: what the listener needs before
  /// that it finds out with their first record.
  void look_less() { looks_less_ = true; }

  /// Sleeps for `time`, less when something happens, a look is due, or a signal comes.
  void wait(std::chrono::milliseconds time);

  /// Whether all targets have ended.
  bool ended();

 private:
  using Clock = std::chrono::steady_clock;

  void handle(const target::ProcessEvent& event);
  void take_change(ObservedProcess& process);
  [[nodiscard]] std::span<const std::chrono::milliseconds> second_looks_at(
      const ObservedProcess& process) const;
  void look_at(ObservedProcess& process, Clock::time_point when);
  void take_ended();
  void look_for_ends();

  ProcessRegistry& processes_;
  Listener& listener_;
  bool follow_;
  bool looks_less_ = false;
  std::optional<Launched> launched_;
  std::vector<ProcessRegistry::Process> targets_;
  std::unique_ptr<target::ProcessEvents> events_;
  EndsHere<std::jthread> collector_;  ///< of events_
  std::uint64_t events_lost_ = 0;
  Clock::time_point looked_for_ends_{};
  /// By the events that are being taken, and not looked at yet.
  std::vector<ProcessRegistry::Process> changed_;
  bool concerned_ = false;   ///< one of the events that are being taken was of an observed process
  Clock::time_point awake_;  ///< when wait() was ended by an event last
  std::chrono::milliseconds pause_, longest_pause_;
  /// Looks to be made. One that is not at its process's next_look_ has been put off.
  std::multimap<Clock::time_point, std::weak_ptr<ObservedProcess>> looks_;
};

}  // namespace vitrine::observe
