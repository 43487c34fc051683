// Reading the label sets of a live process: the observing library's main entry.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/limits.hpp"
#include "base/redaction.hpp"
#include "base/result.hpp"
#include "format/label_set.hpp"

namespace vitrine::observe {

/// How threads are visited.
enum class Mode : std::uint8_t {
  snapshot,  ///< BPF task iterator, or /proc without BPF rights: stops no thread
  ebpf,      ///< on CPU-clock samples, in the interrupt: sees running threads only
  ptrace,    ///< each thread stopped briefly
};
std::string_view name(Mode mode);

/// What proves a result (docs/formats/custom-labels.md, "Evidence").
enum class Evidence : std::uint8_t {
  proven,    ///< the thread ran nothing while it was read
  serial,    ///< vitrine's writer's serial was the same before and after
  stopped,   ///< read while the thread was stopped by ptrace
  sampled,   ///< read in an interrupt of the thread itself
  unproven,  ///< the best of several reads; may mix two sets
};
std::string_view name(Evidence evidence);

/// One thread and one definition: a process may publish in several formats and several modules.
struct ThreadLabels {
  int pid = 0;
  int tid = 0;
  std::string comm;
  format::Format format{};
  std::string module;  ///< path of the defining module, as the target names it
  Mode mode{};
  Evidence evidence = Evidence::unproven;
  Result<format::LabelSet> set;  ///< an empty set when none is in force
};

/// One reading of all threads.
struct Snapshot {
  std::vector<ThreadLabels> threads;
  std::vector<std::string> notes;  ///< what could not be done, and why; each once
};

struct LabelOptions {
  Mode mode = Mode::snapshot;
  std::vector<int> tids;  ///< empty: all threads
  limits::LabelLimits limits;
  bool may_stop = false;    ///< snapshot may stop a thread that it cannot prove (escalation)
  unsigned sample_hz = 99;  ///< ebpf mode: samples a second a CPU
  std::chrono::milliseconds stop_deadline{100};  ///< ptrace: how long a thread may take to stop
  /// When it becomes true, open() fails with `interrupted`, and read() returns early: with what it has, or with
  /// `interrupted`, if it has nothing yet.
  const std::atomic<bool>* stop = nullptr;
};

/// With the values hidden that `redaction` covers.
Snapshot redacted(Snapshot snapshot, const Redaction& redaction);

/// A definition found in the target: where one format's slot is.
struct DefinitionInfo {
  format::Format format{};
  std::string module;
  std::string location;  ///< "TP-8", "module 3 + 0x10 through the DTV (glibc)"
  /// Thread records in a process with several key maps or several modules with records: where the context is that has
  /// their names, 0: unknown; and why it cannot be found (KeyMaps::Choice).
  std::uint64_t key_map = 0;
  std::string key_map_problem;
};

/// Reads one process again and again. Keeps what it found out (modules, TLS locations, thread
/// pointers, key maps) and refreshes it when the target changes: new libraries, threads, exec.
class LabelReader {
 public:
  /// Errors: not_found (no such process), not_permitted, unsupported (32-bit, kernel thread), usage, interrupted.
  static Result<std::unique_ptr<LabelReader>> open(int pid, LabelOptions options);

  virtual ~LabelReader() = default;

  /// What the process defines now. Empty: the error of read() has the reason.
  virtual std::vector<DefinitionInfo> definitions() const = 0;

  /// Reads all threads (snapshot, ptrace) or gathers samples for `window` (ebpf). Errors: not_found (the process is
  /// gone); failed (it publishes nothing: the message has what was looked for); ptrace, where no thread may be
  /// stopped: not_permitted, or failed (another tracer has them: the message names it); changing (its libraries or
  /// its program changed during each of several attempts); interrupted (`stop` became true before there was a result).
  virtual Result<Snapshot> read(std::chrono::milliseconds window) = 0;
};

}  // namespace vitrine::observe
