// vitrine/observe/labels.hpp: the label sets of the threads of a live process.
//
//   auto reading = vitrine::observer::read_labels(pid);
//   for (const auto& thread : reading->threads)
//     if (thread.set)
//       for (const auto& label : thread.set->labels) use(thread.tid, label.key, label.value);
//
// Rights: those of ptrace towards the process (same user, or CAP_SYS_PTRACE). With CAP_BPF and
// CAP_PERFMON snapshots prove more; Mode::ebpf needs both.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include <vitrine/observe/result.hpp>

namespace vitrine::observer {
inline namespace v1 {

/// How threads are visited.
enum class Mode : std::uint8_t {
  snapshot,  ///< stops no thread
  ebpf,      ///< at samples of the CPU clock: sees running threads only
  ptrace,    ///< stops each thread briefly
};

/// Why a set is what the thread had in force.
enum class Evidence : std::uint8_t {
  proven,    ///< the thread ran nothing while it was read
  serial,    ///< the serial of vitrine's own sets was the same before and after
  stopped,   ///< the thread was stopped
  sampled,   ///< read in an interrupt of the thread itself
  unproven,  ///< the best of several reads: may mix two sets
};

std::string_view to_string(Mode mode) noexcept;
std::string_view to_string(Evidence evidence) noexcept;

/// Any bytes, each.
struct Label {
  std::string key;
  std::string value;
};

/// The trace that a thread works for.
struct TraceContext {
  std::array<std::uint8_t, 16> trace_id{};
  std::array<std::uint8_t, 8> span_id{};
  std::optional<std::uint8_t> flags;  ///< W3C trace flags, where the format has them
};

/// What is in force on a thread, in one format. Keys are unique.
struct LabelSet {
  std::vector<Label> labels;
  std::optional<TraceContext> trace;
  std::vector<std::string> truncated;  ///< what a limit cut: "value: kept 1,024 of 70,000"
  std::vector<std::string> defects;    ///< rules of the format that the publisher broke

  /// The value of a key, or null.
  [[nodiscard]] const std::string* find(std::string_view key) const noexcept {
    for (const Label& label : labels)
      if (label.key == key) return &label.value;
    return nullptr;
  }
};

/// One thread and one definition: a process may publish in several formats and from several modules.
struct ThreadLabels {
  int pid = 0;
  int tid = 0;
  std::string comm;
  std::string format;  ///< "custom-labels-v1", …
  std::string module;  ///< path of the module that defines the slot, as the target names it
  Evidence evidence = Evidence::unproven;
  Result<LabelSet> set =
      LabelSet{};  ///< empty: none in force; error: this thread could not be read
};

struct LabelReading {
  std::vector<ThreadLabels> threads;
  std::vector<std::string> notes;  ///< what could not be done, and why; each once
};

struct LabelOptions {
  Mode mode = Mode::snapshot;
  std::vector<int> tids;  ///< empty: all threads; those that the process does not have are left out
  bool may_stop = false;  ///< a snapshot may stop a thread briefly whose set it cannot prove
  unsigned sample_hz = 99;  ///< ebpf: samples a second a CPU; at most 10,000
  /// When it becomes true, open() fails with `interrupted`, and read() returns early: with what it has, or with
  /// `interrupted`. Must outlive the reader.
  const std::atomic<bool>* stop = nullptr;
};

/// Reads one process again and again; keeps what it found out about it, and follows libraries,
/// threads and exec. One thread at a time uses a reader. After a fork, a child that reads opens one of its
/// own.
class LabelReader {
 public:
  /// Errors: not_found, not_permitted, unsupported (a 32-bit process, a kernel thread), usage, interrupted.
  static Result<LabelReader> open(int pid, const LabelOptions& options = {});

  LabelReader(LabelReader&&) noexcept;
  LabelReader& operator=(LabelReader&&) noexcept;
  ~LabelReader();

  /// One reading of all threads. ebpf: gathers samples for `window`. Errors: not_found (the process
  /// is gone), failed (it publishes no labels; the message names what was looked for), changing (its libraries or its
  /// program changed during each of several attempts), another_program (it is executing one: read again).
  Result<LabelReading> read(std::chrono::milliseconds window = std::chrono::milliseconds(0));

 private:
  struct State;
  explicit LabelReader(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// One reading, by a snapshot.
Result<LabelReading> read_labels(int pid);

}  // namespace v1
}  // namespace vitrine::observer
