// Profiling: samples of processes with stacks and labels, as profile::Profile: the observing
// library's entry to `vitrine profile`.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/limits.hpp"
#include "base/result.hpp"
#include "profile/profile.hpp"
#include "profile/select.hpp"

namespace vitrine::observe {

inline constexpr std::size_t min_stack_bytes = 1024;  ///< to copy of a stack
inline constexpr std::size_t max_buffer_bytes = 1U << 30;
inline constexpr std::size_t usual_buffer_bytes = 32U << 20;
inline constexpr std::size_t min_stack_depth = 16;  ///< frames
/// An interval has so many times of ProfilingOptions::time_resolution where it is asked of the kernel once.
inline constexpr int times_of_interval = 4;

/// Where the stacks of user code are unwound.
enum class Unwind : std::uint8_t {
  copy,       ///< here, from a copy of each stack
  kernel,     ///< in the kernel; a stack that it cannot unwind is copied
  automatic,  ///< in the kernel where it can, else here
};

/// How stacks were unwound: each sample that came in is in one of these.
struct UnwindCounts {
  std::uint64_t in_kernel = 0;
  std::uint64_t without_user_code = 0;  ///< of threads that have none
  std::vector<std::pair<std::string_view, std::uint64_t>> from_copies;  ///< why, how many
  // Of ProfilingOptions::verify_unwind, of those in the kernel:
  std::uint64_t compared = 0;
  std::uint64_t agreed = 0;
  std::uint64_t added = 0;  ///< samples that the kernel has added up as well (docs/essays/rows.md)
  std::uint64_t equal = 0;  ///< of those, equal to what they were added to
  std::uint64_t miscounted = 0;
  std::uint64_t kernel_known = 0;  ///< off-CPU: stacks of the kernel that were not unwound anew
  std::uint64_t kernel_wrong = 0;  ///< of those, by unwinding them to compare
  /// Off-CPU: waits that were not sampled anew (docs/essays/rows.md); of those, by sampling them to compare: other ones.
  std::uint64_t like_before = 0, not_like = 0;
  /// On CPU: samples whose labels were not read anew; of those, by reading them to compare: other ones.
  std::uint64_t known_labels = 0, other_labels = 0;
};

/// Samples that were taken, and those of them that are not in the profile: ProfilingOptions::only does not hold for them,
/// or their processes are not selected.
struct FilterCounts {
  std::uint64_t taken = 0;
  std::uint64_t refused_in_kernel = 0;
  std::uint64_t refused_here = 0;
};

/// Which processes are profiled, by lists of globs and `!GLOB`s (is_listed): a process must be in each
/// of them. Of another, one sample an interval is looked at, and the kernel refuses the rest.
struct ProcessSelection {
  std::vector<std::string> cgroups;  ///< paths, as /proc/PID/cgroup has them
  std::vector<std::string>
      containers;  ///< ids of 64 hexadecimal digits; empty for one that is in none
  std::vector<std::string> services;  ///< service.name, by its process context or environment
  std::vector<std::string> programs;  ///< file names of executables

  [[nodiscard]] bool is_all() const {
    return cgroups.empty() && containers.empty() && services.empty() && programs.empty();
  }
};

struct ProfilingOptions {
  std::vector<pid_t> pids;           ///< these; or
  std::vector<std::string> command;  ///< a program to start, from its first instruction; or
  bool all = false;                  ///< every process of the machine
  bool command_to_stderr = false;    ///< what it writes to standard output goes to standard error
  ProcessSelection selection;        ///< of those
  /// Null: all samples. Not by `process`, which may be known later than a sample is taken. Samples that it does not
  /// hold for are refused in the kernel, once one of their process and labels has come in (and thread, CPU, trace and
  /// span, if it has these keys).
  std::shared_ptr<const profile::Filter> only;
  bool follow = false;      ///< processes that the pids or the command fork, too
  unsigned frequency = 99;  ///< on-CPU samples a second a CPU
  bool on_cpu = true;
  bool off_cpu = false;
  std::chrono::nanoseconds min_block{0};  ///< off-CPU stretches shorter than this are passed over
  /// Samples no time after so long from the start on, exactly, however late stop() comes. Nothing: until stop().
  std::optional<std::chrono::nanoseconds> duration;
  bool preempted = false;  ///< off-CPU: also threads that were put off while they could run
  bool wakers = false;     ///< off-CPU: also the stack and the labels of what ended each wait
  bool kernel_frames = true;
  Unwind unwind = Unwind::automatic;
  bool verify_unwind =
      false;  ///< unwinds stacks twice, in the kernel and from copies, and compares
  std::size_t stack_bytes = 16U << 10;  ///< most that is copied of one stack
  std::size_t stack_depth = 512;  ///< most frames kept of one stack, limits::stack_depth at most
  /// Of samples that wait to be read, bytes; of those of waiting threads, twice as many. Made a power of
  /// two. Nothing: what samples on CPUs need; of threads that leave them, usual_buffer_bytes.
  std::optional<std::size_t> buffer_bytes;
  /// Always on: take() comes about as often, for ever. Names are looked up once meanwhile, and memory is
  /// let go again. Nothing: the profile ends.
  std::optional<std::chrono::milliseconds> always_on;
  /// False: locations stay without names, which saves reading the files of the processes.
  bool symbols = true;
  /// Times of samples are no more exact than this, at least: equal ones of so long are added up in the kernel. Eight
  /// times this is how long the kernel goes without being asked for them.
  std::chrono::nanoseconds time_resolution{std::chrono::milliseconds(68)};
  limits::LabelLimits limits;
  const std::atomic<bool>* stop = nullptr;  ///< when it becomes true, calls return early
  /// When it becomes true, names are waited for a short time only, whatever take_to_name() was given.
  const std::atomic<bool>* hurry = nullptr;
};

/// One thread at a time uses it, except as take_to_name() documents. The thread that calls open() should live as long: the
/// processes that read files for it are children of that thread and end with it, and what they had read is read anew.
class Profiling {
 public:
  /// Begins to sample. Errors: usage; not_found (no such process or program); not_permitted (names
  /// the capability); unsupported.
  static Result<std::unique_ptr<Profiling>> open(ProfilingOptions options);

  virtual ~Profiling() = default;

  /// When ProfilingOptions::duration is over.
  [[nodiscard]] virtual std::optional<std::chrono::steady_clock::time_point> end() const = 0;

  /// Takes in what has been sampled, waiting at most `timeout`; learns of new processes, libraries.
  virtual Result<void> poll(std::chrono::milliseconds timeout) = 0;

  /// Samples that take() would give.
  [[nodiscard]] virtual std::size_t waiting() const = 0;

  /// Whether all processes of the target have ended.
  virtual bool ended() = 0;

  // Where one takes over from another, so that no time is in both: end_sampling() of the
  // one, and at once begin_anew() of the other.

  /// No time from now on is sampled, at once: stop() may take long.
  virtual void end_sampling() = 0;
  /// Drops what was sampled: the first profile begins now.
  virtual void begin_anew() = 0;

  /// Stops sampling; what was sampled before is still there to be taken, as far as that takes at most a
  /// second. The rest is lost, and counted.
  virtual void stop() = 0;

  /// Ends the command that was started for this, if one was. A note reports when that took more than
  /// asking it.
  virtual void end_command() = 0;

  /// What was sampled since the last call (or the start), named: one profile with its own tables.
  virtual profile::Profile take() = 0;

  /// The same, named by the function when it is called, which takes at most about `time`: what is
  /// not named by then is counted (Losses::unnamed), and a later profile may have it. For another
  /// thread than that which samples: one call at a time, and none after this object has ended.
  virtual std::function<profile::Profile()> take_to_name(std::chrono::milliseconds time) = 0;

  /// Since the start.
  [[nodiscard]] virtual UnwindCounts unwind_counts() const = 0;
  [[nodiscard]] virtual FilterCounts filter_counts() const = 0;

  /// What could not be done, or not as asked, since the last call.
  virtual std::vector<std::string> take_notes() = 0;
};

}  // namespace vitrine::observe
