// vitrine/observe/profile.hpp: samples of processes with stacks and labels.
//
//   vitrine::observer::ProfileOptions options;
//   options.pids = {pid};
//   auto profiler = vitrine::observer::Profiler::open(options);
//   for (auto end = now() + 10s; now() < end && !profiler->ended();)
//     if (auto polled = profiler->poll(100ms); !polled) break;
//   profiler->stop();
//   auto bytes = profiler->take().encode(vitrine::observer::Encoding::pprof);
//
// Rights: CAP_BPF and CAP_PERFMON; CAP_SYS_PTRACE for labels of other users' processes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <vitrine/observe/labels.hpp>
#include <vitrine/observe/result.hpp>

namespace vitrine::observer {
inline namespace v1 {

/// What to sample: processes, a command from its first instruction, or the whole machine. Exactly one
/// of the three.
struct ProfileOptions {
  std::vector<int> pids;
  std::vector<std::string> command;
  bool all = false;

  bool follow = false;      ///< processes that the pids or the command fork, too
  unsigned frequency = 99;  ///< on-CPU samples a second a CPU; at most 10,000
  bool on_cpu = true;
  bool off_cpu = false;
  std::chrono::nanoseconds min_block{0};  ///< shorter off-CPU stretches are passed over
  bool kernel_frames = true;
  bool symbols = true;  ///< false: frames stay without names, and no files are read
  /// When it becomes true, open() fails with `interrupted`, and poll() returns early. Must outlive the profiler.
  const std::atomic<bool>* stop = nullptr;
};

/// A function on a stack; inlined functions are frames of their own.
struct Frame {
  enum class Kind : std::uint8_t { native, kernel, jit, unknown };
  Kind kind = Kind::unknown;
  std::uint64_t address = 0;  ///< in the process
  std::string function;       ///< demangled; empty: not known
  std::string file;           ///< of its source; empty: not known
  unsigned line = 0;          ///< 0: not known
  std::string module;         ///< path of the mapped file, "[kernel]", "[vdso]"; may be empty
};

struct Sample {
  enum class Measure : std::uint8_t { on_cpu, off_cpu };
  Measure measure = Measure::on_cpu;
  int pid = 0;
  int tid = 0;
  unsigned cpu = 0;
  std::string comm;            ///< of the process
  std::string thread;          ///< name of the thread
  std::uint64_t time_ns = 0;   ///< Unix time: of the tick, or of going off the CPU
  std::uint64_t value_ns = 0;  ///< CPU time of the tick, or time off the CPU; of all of `count`
  /// Equal samples, the first of them at `time_ns`, the last up to 67 ms later
  std::uint64_t count = 1;
  std::vector<Label> labels;  ///< by key
  std::optional<TraceContext> trace;
  std::vector<Frame> stack;    ///< innermost first
  bool stack_is_whole = true;  ///< false: the outer frames are missing
};

enum class Encoding : std::uint8_t { pprof, otlp, folded, speedscope, json, html };

struct EncodeOptions {
  std::vector<std::string>
      group_by;              ///< labels whose values become outermost frames, where it applies
  std::string label_prefix;  ///< before keys of labels (otlp, pprof)
  std::string title;         ///< html, speedscope
};

/// What was sampled: an immutable value; copies share it. Any thread may use it.
class Profile {
 public:
  [[nodiscard]] std::size_t size() const noexcept;  ///< number of samples
  /// Sample `index`, below size(), with its tables looked up.
  [[nodiscard]] Sample sample(std::size_t index) const;
  [[nodiscard]] std::uint64_t start_ns() const noexcept;  ///< Unix time
  [[nodiscard]] std::uint64_t duration_ns() const noexcept;
  [[nodiscard]] std::uint64_t lost() const noexcept;  ///< samples lost for lack of space
  [[nodiscard]] const std::vector<std::string>& problems() const noexcept;

  /// Errors: limit (larger than the format can be), failed (compression), usage (no such encoding).
  Result<std::string> encode(Encoding encoding, const EncodeOptions& options = {}) const;

 private:
  friend class Profiler;
  struct State;
  explicit Profile(std::shared_ptr<const State> state) noexcept;
  std::shared_ptr<const State> state_;
};

/// Samples while it lives, or until stop(). One thread at a time uses it. The thread that calls open() should live as
/// long: the processes that read files for it are children of that thread and end with it, and what they had read is read
/// anew.
///
/// After a fork, the child may do nothing with its copy but destroy it, as std::exit does with a static one: that closes
/// the child's descriptors, and changes nothing for the parent. A child that keeps or leaks its copy may
/// keep the kernel's programs loaded until it ends or executes a program.
class Profiler {
 public:
  /// Begins to sample. Errors: usage; not_found (no such process or program); not_permitted (names
  /// the capability); unsupported; interrupted (by `stop`).
  static Result<Profiler> open(const ProfileOptions& options);

  Profiler(Profiler&&) noexcept;
  Profiler& operator=(Profiler&&) noexcept;
  ~Profiler();

  /// Takes in what has been sampled, waiting at most `timeout`, and not at all once ended(). Call it several
  /// times a second: the kernel keeps a bounded number of samples.
  Result<void> poll(std::chrono::milliseconds timeout);

  [[nodiscard]] std::size_t waiting() const;  ///< samples that take() would give
  bool ended();                               ///< whether all processes of the target have ended
  void stop();                                ///< stops sampling; what was sampled can be taken
  void end_command();                         ///< ends the command that was started, if one was
  /// What was sampled since the last call, or the start.
  Profile take();
  /// What could not be done, or not as asked, since the last call.
  std::vector<std::string> take_notes();

 private:
  struct State;
  explicit Profiler(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace v1
}  // namespace vitrine::observer
