// vitrine/observe/trace.hpp: probes as they fire, with arguments and the labels of the thread.
//
//   vitrine::observer::TraceOptions options;
//   options.pids = {pid};
//   options.probes = {"shop:*"};
//   auto trace = vitrine::observer::Trace::open(options);
//   while (trace && !trace->ended())
//     if (auto taken = trace->poll(100ms, [](const auto& event) { use(event); }); !taken) break;
//
// Rights: CAP_BPF and CAP_PERFMON; CAP_SYS_PTRACE for the labels of other users' processes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>
#include <vitrine/observe/labels.hpp>
#include <vitrine/observe/result.hpp>

namespace vitrine::observer {
inline namespace v1 {

/// What to trace: processes, or files in every process that runs or loads them, or a command from its
/// first instruction. Exactly one of the three.
struct TraceOptions {
  std::vector<int> pids;
  std::vector<std::string> files;
  std::vector<std::string> command;

  /// "provider:name", or a name alone; each with the wildcards of the shell.
  std::vector<std::string> probes;
  std::string where;    ///< only fires of which this holds: the language of `vitrine trace --where`
  std::string show;     ///< what to show in place of all arguments: the language of --show
  bool follow = false;  ///< processes that the pids or the command fork, too
  bool stacks = false;  ///< of the thread that fired, as far as frame pointers lead
  bool force = false;   ///< also where it is known to harm the target
  std::size_t string_bytes = 256;  ///< kept of one string; at most 4,096
  /// When it becomes true, open() fails with `interrupted`, and poll() returns early. Must outlive the trace.
  const std::atomic<bool>* stop = nullptr;
};

struct Pointer {
  std::uint64_t address = 0;
};
struct Enumerator {
  std::int64_t value = 0;  ///< of an unsigned type from 2^63 on: the bits of the number
  std::string name;        ///< empty: none of those listed (from 2^63 on that is a uint64_t)
};
/// Text (any bytes), or bytes that are not text. Of the item `stack`: a line for each function.
struct Text {
  std::string data;
  bool truncated = false;
};
struct Binary {
  std::string data;
  bool truncated = false;
};
/// An argument that could not be read, and why.
struct Unreadable {
  std::string reason;
};

struct Argument {
  std::string name;  ///< empty: not known
  /// monostate: not there, as a label that the thread does not have.
  std::variant<std::monostate, std::int64_t, std::uint64_t, double, bool, Pointer, Enumerator, Text,
               Binary, Unreadable>
      value;
};

struct StackFrame {
  std::uint64_t address = 0;  ///< in the process
  std::string function;       ///< demangled; empty: not known
  /// Of the address in the function, in bytes; none: inlined, or debug information alone names it.
  std::optional<std::uint64_t> offset;
  std::string module;    ///< path of the file; empty: not known
  bool inlined = false;  ///< into the function of the next frame, which has the same address
};

struct TraceEvent {
  std::uint64_t time_ns = 0;  ///< CLOCK_MONOTONIC
  int pid = 0;                ///< in the caller's pid namespace; 0: not visible there
  int tid = 0;
  unsigned cpu = 0;
  std::string comm;
  std::string probe;       ///< "provider:name"
  std::string module;      ///< path of the file that it is in
  std::uint64_t site = 0;  ///< in the file's own address space
  std::vector<Argument> arguments;
  LabelSet labels;                ///< in force at that time
  std::string labels_error;       ///< why (some of) the labels could not be read; empty: they were
  std::vector<StackFrame> stack;  ///< innermost first; with `stacks`
};

/// Detaches at its end. One thread at a time uses a trace.
///
/// After a fork, the child may do nothing with its copy but destroy it, as std::exit does with a static one: that closes
/// the child's descriptors, and changes nothing for the parent. Probes stay attached
/// as long as a child has its copy, and has not executed another program.
class Trace {
 public:
  /// Attaches. Errors: usage; not_found (no such process or file); failed (no such probe, with what
  /// there is instead); not_permitted; unsupported; interrupted (by `stop`).
  static Result<Trace> open(const TraceOptions& options);

  Trace(Trace&&) noexcept;
  Trace& operator=(Trace&&) noexcept;
  ~Trace();

  /// Calls `callback` for each fire, in order of each CPU, waiting at most `timeout` for the first;
  /// attaches to what has been loaded meanwhile. Returns how many records came from the kernel: 0
  /// when nothing waits any more. Errors: as open(); usage, if there is no callback, or it calls poll()
  /// itself. It may call the other functions, and may throw, which leaves the rest for the next call.
  Result<std::size_t> poll(std::chrono::milliseconds timeout,
                           const std::function<void(const TraceEvent&)>& callback);

  /// Takes the probes away; what has fired can still be polled.
  void detach();
  /// Ends the command that was started, if one was.
  void end_command();
  /// Whether all processes of the target have ended. Never, for files.
  bool ended();

  [[nodiscard]] std::uint64_t fires() const;  ///< that passed the kernel's part of `where`
  [[nodiscard]] std::uint64_t lost()
      const;  ///< of those, how many came faster than they were polled
  [[nodiscard]] std::vector<std::string> probes()
      const;  ///< "provider:name" of what is attached to
  /// What could not be done, or not as asked, since the last call.
  std::vector<std::string> take_notes();

 private:
  struct State;
  explicit Trace(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace v1
}  // namespace vitrine::observer
