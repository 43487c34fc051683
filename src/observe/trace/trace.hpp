// Trace: fires of probes as they happen, with arguments and with the labels of the thread that
// fired: the observing library's entry to tracing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.hpp"
#include "base/result.hpp"
#include "bpf/tracer.hpp"
#include "format/label_set.hpp"
#include "observe/trace/program.hpp"
#include "query/reduction.hpp"
#include "symbol/stack_names.hpp"

namespace vitrine::observe {

/// What to trace. One of the three kinds of target.
struct TraceTarget {
  std::vector<pid_t> pids;  ///< these processes, with the libraries that they load later
  /// These files, in every process that runs or loads them, but for this one and those that it has forked and that
  /// have executed nothing.
  std::vector<std::string> files;
  std::vector<std::string> command;  ///< a program to start, from its first instruction
  bool command_to_stderr = false;    ///< what it writes to standard output goes to standard error
};

struct TraceOptions {
  TraceTarget target;
  std::vector<std::string> probes;  ///< patterns (probe/probe.hpp); of a latency: unused
  TraceQuery query;
  bool follow = false;  ///< processes that the pids or the command fork, too
  /// Globs on paths and names of files: probes of other files are not traced, and those of a file
  /// that no process has loaded yet are waited for. Empty: all files.
  std::vector<std::string> modules;
  bool stacks = false;     ///< of the thread that fired, as far as its frame pointers lead
  bool optional = false;   ///< patterns may match nothing: a note reports it
  bool resources = false;  ///< events have the resource of their process
  bool held = false;       ///< no fire counts before set_period()
  bool force = false;      ///< also where it is known to harm the target (bpf/nop_policy.hpp)
  std::size_t buffer_bytes = 16U << 20;  ///< the kernel's, of fires; made a power of two
  /// Of fires that a thread takes out of that buffer and poll() has not handed over yet; 0: there is no such
  /// thread, so that fires wait in the buffer alone.
  std::size_t backlog_bytes = 0;
  limits::LabelLimits limits;
  bpf::Attaching attaching = bpf::Attaching::best;  ///< for tests: as on kernels before 6.6
  /// When it becomes true, calls return early.
  const std::atomic<bool>* stop = nullptr;
};

/// One argument of a fire.
struct FiredArgument {
  std::string_view name;  ///< empty: not known
  query::Format format = query::Format::plain;
  std::optional<probe::Value> value;  ///< nothing: it is not there (no such label)
  std::uint8_t width = 8;             ///< bytes of a number, as hex() prints it
};

/// The fire that began a slow pair.
struct PairStart {
  std::uint64_t time_ns = 0;  ///< CLOCK_MONOTONIC
  std::string_view probe;     ///< as in TraceEvent
  std::string_view module;
  Address site = 0;
  std::vector<FiredArgument> arguments;
  bool cut = false;  ///< its arguments had no room
};

/// One fire. Good while the sink that gets it runs.
struct TraceEvent {
  std::uint64_t time_ns = 0;  ///< CLOCK_MONOTONIC
  pid_t pid = 0;              ///< in our pid namespace; 0: not visible there
  pid_t tid = 0;
  std::uint32_t cpu = 0;
  std::string comm;
  std::string_view probe;   ///< "provider:name"
  std::string_view module;  ///< path of the file it is in, as the target names it
  Address site = 0;         ///< in the file's own address space, as `vitrine probes` lists it
  Address address = 0;      ///< where it fired, in the process
  std::vector<FiredArgument> arguments;
  const format::LabelSet* labels = nullptr;
  std::uint64_t labels_id = 0;  ///< events of one trace with the same have the same labels; 0: none
  std::string_view labels_error;          ///< why (some of) the labels could not be read
  bool cut = false;                       ///< something had no room
  std::vector<symbol::StackFrame> stack;  ///< innermost first: the probe's own
  std::optional<PairStart> start;         ///< of a slow pair, of which this is the end
  std::string_view resource;  ///< as a message Resource of OTLP; empty: not known, or not asked for
};

struct TraceCounters {
  std::uint64_t fires = 0;  ///< that passed the kernel's part of the condition
  std::uint64_t lost = 0;   ///< of those, never seen: they came faster than they were taken
  std::uint64_t busy = 0;   ///< of the lost: too many were under way at once
  /// That the condition rejected, which is on labels, and some of their labels could not be read.
  std::uint64_t unread_labels = 0;
  // Of slow pairs:
  std::uint64_t pairs = 0;          ///< whatever they took
  std::uint64_t without_start = 0;  ///< ends that had no start
  std::uint64_t without_end = 0;    ///< starts forgotten: another followed, or too many later ones
  std::uint64_t unread = 0;         ///< fires of which what matches could not be read
};

class Trace {
 public:
  using Sink = std::function<void(const TraceEvent&)>;

  /// Attaches. Errors: usage; not_found (no such process or file); failed (no such probe, with what
  /// there is instead); not_permitted (names the capability); unsupported.
  static Result<std::unique_ptr<Trace>> open(TraceOptions options);

  virtual ~Trace() = default;

  /// Hands over what has fired, waiting at most `timeout` for the first of it; attaches to what has been loaded
  /// meanwhile. With a reduction nothing is handed over. Returns how much came from the kernel: 0
  /// when nothing waits any more. Errors: as open().
  virtual Result<std::size_t> poll(std::chrono::milliseconds timeout, const Sink& sink) = 0;

  /// Fires before `from_ns` and from `until_ns` on (CLOCK_MONOTONIC; 0: no end) do not count: one trace
  /// takes over from another, and each fire belongs to one of them.
  virtual void set_period(std::uint64_t from_ns, std::uint64_t until_ns) = 0;

  /// Takes away what waits to be polled, unread: how many fires that were.
  virtual Result<std::size_t> pass_over() = 0;

  /// Takes all probes away; what has fired before is still there to be polled.
  virtual void detach() = 0;

  /// Ends the command that was started for this, if one was. A note reports when that took more than
  /// asking it.
  virtual void end_command() = 0;

  /// Whether all processes of the target have ended. Never, for files.
  virtual bool ended() = 0;

  /// What was added up since the start; empty without a reduction.
  virtual Result<query::ReductionTable> reduction() = 0;

  [[nodiscard]] virtual TraceCounters counters() const = 0;

  /// What metrics are about, as a message Resource of OTLP: the process, if it is one alone.
  [[nodiscard]] virtual std::string resource() = 0;

  /// How this kernel makes uprobes: never `best`.
  [[nodiscard]] virtual bpf::Attaching attaching() const = 0;

  /// "provider:name" of what is attached to, each once.
  [[nodiscard]] virtual std::vector<std::string> probes() const = 0;
  [[nodiscard]] virtual std::size_t sites() const = 0;

  /// Why some pattern has matched nothing so far, although none is optional.
  [[nodiscard]] virtual std::optional<Error> unmatched() const = 0;

  /// What could not be done, or not as asked, since the last call.
  virtual std::vector<std::string> take_notes() = 0;
};

}  // namespace vitrine::observe
