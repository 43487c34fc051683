// ProcessWatch: the processes that a trace or a profile is about, the ones they start, and what
// happens to them all.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "observe/process/launch.hpp"
#include "target/proc_file.hpp"
#include "target/process_events.hpp"

namespace vitrine::observe {

// TracedProcesses: the processes that a trace is about, while they live.

class TracedProcesses {
 public:
  /// Errors: not_found.
  Result<void> add(pid_t pid);

  [[nodiscard]] bool has(pid_t pid) const { return alive_.contains(pid); }
  [[nodiscard]] std::vector<pid_t> all() const;
  [[nodiscard]] bool empty() const { return alive_.empty(); }

  /// Leaves out those that have ended, and returns them.
  std::vector<pid_t> take_ended();

 private:
  std::map<pid_t, target::FileDescriptor> alive_;  ///< pidfds
};

class ProcessWatch {
 public:
  /// Who wants to know.
  class Listener {
   public:
    virtual ~Listener() = default;
    /// Whether it wants looks at, and the end of, a process that is not among ours.
    virtual bool knows(pid_t pid) = 0;
    /// Whether a process that is not known is to be looked at for what it has mapped or executed.
    virtual bool concerns(const target::ProcessEvent& event) = 0;
    virtual void forked(pid_t parent, pid_t child) = 0;
    /// It has executed or mapped something (`again`: a while ago, it may have been at it still).
    virtual void changed(pid_t pid, bool again) = 0;
    /// It has ended, and what it did last has been taken by now.
    virtual void departed(pid_t pid) = 0;
    virtual void note(std::string text) = 0;
  };

  /// Begins to listen: what happens from now on is not missed. `follow`: what ours fork is ours.
  /// `listener` must outlive this.
  ProcessWatch(Listener& listener, bool follow);

  /// Errors: not_found.
  Result<void> add(pid_t pid) { return processes_.add(pid); }

  /// Starts a program, held before its first instruction where that is possible. Errors: as
  /// Launched.
  Result<void> launch(const std::vector<std::string>& command);
  /// Null: none was started.
  [[nodiscard]] Launched* launched() { return launched_ ? &*launched_ : nullptr; }

  /// Ends it, and tells the listener when that took more than asking.
  void end_launched();

  [[nodiscard]] bool has(pid_t pid) const { return processes_.has(pid); }
  [[nodiscard]] std::vector<pid_t> all() const { return processes_.all(); }

  /// Ours, or forked by ones that were, and perhaps gone.
  [[nodiscard]] bool has_had(pid_t pid) const { return has(pid) || lineage_.contains(pid); }

  /// Tells of what has happened.
  void take_events();
  /// Looks once more where it is time to.
  void look_again();
  void look_again_soon(pid_t pid);

  /// Sleeps for `time`, less when there is something to tell, a look to be made, or a signal comes.
  void wait(std::chrono::milliseconds time);

  /// Whether all of ours have ended.
  bool ended();

 private:
  using Clock = std::chrono::steady_clock;

  void handle(const target::ProcessEvent& event);
  void take_ended();

  Listener& listener_;
  bool follow_;
  std::optional<Launched> launched_;
  TracedProcesses processes_;
  std::set<pid_t> lineage_;  ///< processes that followed ones have forked; some may be gone
  std::unique_ptr<target::ProcessEvents> events_;
  std::uint64_t events_lost_ = 0;
  std::set<pid_t> changed_;  ///< by the events that are being taken, and not looked at yet
  Clock::time_point awake_;  ///< when wait() was ended by an event last
  /// Processes to look at once more, and how often they have been.
  std::map<pid_t, std::pair<Clock::time_point, std::size_t>> to_look_at_;
  /// Processes that have ended, and when to forget them.
  std::deque<std::pair<Clock::time_point, pid_t>> departed_;
};

}  // namespace vitrine::observe
