// Tracer: the kernel's side of a trace. It attaches to probes, and hands over fires or sums.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.hpp"
#include "base/result.hpp"
#include "bpf/attachment.hpp"
#include "bpf/event.hpp"
#include "bpf/nop_policy.hpp"
#include "bpf/target_maps.hpp"
#include "bpf/wire/trace.h"

namespace vitrine::bpf {

/// How uprobes are made.
enum class Attaching : std::uint8_t {
  best,          ///< uprobe_multi where the kernel has it, else perf events
  uprobe_multi,  ///< one link for many sites: Linux 6.6, CAP_BPF and CAP_PERFMON
  perf_event,    ///< one event a site: needs CAP_SYS_ADMIN, and takes 0.1 s a site to close
};

/// A label whose value the kernel looks up. Index in TracerOptions::selected = index in
/// vitrine_group::label, vitrine_test::index and vitrine_definition::selected_key.
struct SelectedLabel {
  vitrine_selected_kind kind = VITRINE_SELECT_LABEL;
  std::string key;  ///< of VITRINE_SELECT_LABEL; at most VITRINE_KEY_BYTES
};

struct TracerOptions {
  Attaching attaching = Attaching::best;
  std::size_t ring_bytes = 16U << 20;               ///< made a power of two
  std::size_t backlog_bytes = 0;                    ///< of a thread that empties it; 0: no thread
  std::uint32_t programs = limits::site_programs;   ///< most of set_program
  std::uint32_t groups = limits::groups;            ///< most of one session
  std::uint32_t names = 16 * 1024;                  ///< texts of values that groups are made of
  std::uint32_t buckets = 256 * 1024;               ///< of all histograms together
  std::uint32_t starts = limits::pending_starts;    ///< latencies under way; the oldest go first
  std::optional<std::chrono::nanoseconds> slower;   ///< pairs (VITRINE_SLOW_END) that took longer
  std::uint32_t kept_starts = limits::kept_starts;  ///< of those under way; the oldest go first
  bool reductions = false;                          ///< any role but VITRINE_EMIT will be used
  bool labels = true;                               ///< events carry label sets
  bool stacks = false;                              ///< events carry the user stack
  bool origins = false;                             ///< events carry user and control group
  std::uint64_t from_ns = 0;                        ///< as of set_period()
  bool only_known = false;              ///< only processes with a target, and what they start, fire
  bool others_only = false;             ///< not this process, nor what it has forked
  std::vector<SelectedLabel> selected;  ///< at most VITRINE_SELECTED_LABELS
  std::size_t kept_sets_bytes = 64U << 20;  ///< label sets kept by id, before all are sent anew
  /// When it becomes true, attach() stops.
  const std::atomic<bool>* stop = nullptr;
};

/// Since the tracer was opened (enum vitrine_trace_counter).
using TracerCounters = std::array<std::uint64_t, VITRINE_TRACE_COUNTERS>;

/// One row of what was added up.
struct ReductionRow {
  struct Argument {
    std::uint64_t value = 0;          ///< a number, or a hash
    std::optional<std::string> text;  ///< of a captured string
    bool cut = false;                 ///< that is only its beginning
  };
  /// One label's value. `text` is nullopt when the table of names was full.
  struct Label {
    std::optional<std::string> text;
    bool cut = false;  ///< that is only its beginning
  };

  std::uint32_t probe = 0;  ///< vitrine_site_program::probe
  bool others =
      false;  ///< all groups of this probe that had no room: it has no labels, no arguments
  std::vector<std::optional<Label>> labels;  ///< one a selected label; nullopt: not set
  std::vector<Argument> arguments;           ///< VITRINE_GROUP_ARGUMENTS; of those in use
  std::uint64_t count = 0;
  /// Of VITRINE_SUM, HISTOGRAM, LATENCY_END: 128 bits, the upper half signed.
  std::uint64_t sum = 0;
  std::uint64_t sum_high = 0;
  std::uint64_t least = 0;  ///< in two's complement, if the value is signed
  std::uint64_t most = 0;
  std::map<std::int32_t, std::uint64_t> buckets;  ///< query/buckets.h
};

class Tracer : public ProcessTable {
 public:
  /// Called with each record; what it is given lives until it returns.
  using Sink = std::function<void(const Fire&)>;

  /// Loads the programs; nothing is attached yet. Errors: not_permitted (names the capabilities),
  /// unsupported (built without BPF, no BTF, a forced way of attaching that the kernel lacks),
  /// usage (options), failed.
  static Result<std::unique_ptr<Tracer>> open(TracerOptions options = {});

  /// The way of attaching in use; never `best`.
  [[nodiscard]] virtual Attaching attaching() const = 0;

  /// What conditions (vitrine_predicate) must be compiled with: query::string_hash.
  [[nodiscard]] virtual const vitrine_hash_key& hash_key() const = 0;

  /// Sets what fires of sites with this program index lead to. Before the first attach() that names
  /// it. Errors: usage (index beyond TracerOptions::programs, too many captures).
  virtual Result<void> set_program(std::uint32_t index, const vitrine_site_program& program) = 0;

  /// Attaches to sites of files, all of them in little more time than one takes. `pid`, as we see
  /// it: this process alone, without those it forks; all attachments of one tracer have a pid, or
  /// none has. A site that the kernel refuses is in `failures`, the others are attached. Errors:
  /// not_permitted, not_found (no such process), usage, unsupported, failed, interrupted
  /// (TracerOptions::stop): then nothing is attached.
  virtual Result<Attachment> attach(std::span<const FileSites> files,
                                    std::optional<pid_t> pid = std::nullopt) = 0;

  /// The same for one file.
  Result<Attachment> attach(int file, std::span<const AttachSite> sites,
                            std::optional<pid_t> pid = std::nullopt);

  /// Fires before `from_ns` and from `until_ns` on (CLOCK_MONOTONIC; 0: no end) are passed over: one
  /// trace takes over from another. Starts of pairs count before `from_ns`, too.
  virtual void set_period(std::uint64_t from_ns, std::uint64_t until_ns) = 0;

  /// Hands over what has come in, waiting for it at most `timeout`; ends, at the latest, after
  /// about `timeout` and one record. Returns how many records there were.
  virtual Result<std::size_t> poll(std::chrono::milliseconds timeout, const Sink& sink) = 0;

  /// CLOCK_MONOTONIC: poll() has handed over all fires of before then.
  [[nodiscard]] virtual std::uint64_t taken_until_ns() const = 0;

  /// What was added up since the start, in no particular order. Does not disturb the adding.
  virtual Result<std::vector<ReductionRow>> read_reductions() = 0;

  [[nodiscard]] virtual TracerCounters counters() const = 0;

  /// Records that the thread of TracerOptions::backlog_bytes has taken out of the kernel's buffer.
  [[nodiscard]] virtual std::uint64_t collected() const = 0;
};

}  // namespace vitrine::bpf
