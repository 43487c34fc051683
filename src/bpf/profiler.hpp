// Profiler: the kernel's side of a profile. It samples what runs, and what waits, with registers, a
// copy of the stack, and labels.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "bpf/event.hpp"
#include "bpf/row_table.hpp"
#include "bpf/target_maps.hpp"
#include "bpf/unwind_tables.hpp"
#include "bpf/wire/profile.h"

namespace vitrine::bpf {

struct ProfilerOptions {
  unsigned frequency = 99;                ///< on-CPU samples a second a CPU; 0: none
  bool off_cpu = false;                   ///< of threads that gave up their CPU, or have none
  std::chrono::nanoseconds min_block{0};  ///< off-CPU stretches shorter than this are passed over
  bool preempted = false;      ///< off-CPU: also threads that were put off while they could run
  bool wakers = false;         ///< off-CPU: also what wakes threads; then no sample is refused
  bool every_process = false;  ///< false: those that want() was called for
  bool follow = false;         ///< what these fork, too, even before want() is called for it
  /// For which want() is called, at most; of few, less is kept: it takes a millisecond to clear.
  std::uint32_t processes = 64 * 1024;
  bool kernel_stacks = true;
  vitrine_unwinds unwinds = VITRINE_UNWINDS_NOT;
  std::size_t stack_bytes = 16U << 10;  ///< most of one copy of a stack; limits::stack_copy at most
  std::size_t ring_bytes = 32U << 20;   ///< of the buffer of samples; made a power of two
  /// That a thread which does nothing else may take out of it, so that no sample is lost while the caller is
  /// at something else; 0: poll() reads it.
  std::size_t taken_bytes = 0;
  std::size_t pending_bytes = 64U << 20;  ///< off-CPU: of samples of threads that are not back yet
  std::uint32_t pending_threads = 16 * 1024;  ///< off-CPU: of those
  std::size_t kept_sets_bytes = 64U << 20;    ///< label sets kept by id, before all are sent anew
  /// In which equal samples are added up, where stacks are unwound in the kernel; made a power of two; 0:
  /// they are not. With VITRINE_UNWINDS_AND_COPIES all samples are handed over as well.
  std::uint32_t rows = 0;
  /// What the reader's filter depends on (enum vitrine_filter), if it is to refuse() samples.
  std::uint32_t filter = 0;
  bool selects = false;  ///< the reader is to refuse processes: refuse_process()
  /// Samples on the CPU that differ from an earlier one by trace and span alone are for Sink::span, where they are added
  /// up and `filter` is not by VITRINE_FILTER_BY_SPAN.
  bool spans = false;
  /// Samples that are added up are no farther apart; made a power of two.
  std::chrono::nanoseconds row_time{std::chrono::milliseconds(68)};
};

/// Since the profiler was opened (enum vitrine_profile_counter).
struct ProfilerCounters {
  std::uint64_t samples = 0;
  std::uint64_t lost = 0;          ///< of those: no room in a buffer
  std::uint64_t cut = 0;           ///< pieces of labels that had no room in their sample
  std::uint64_t faults = 0;        ///< pieces of labels that were not resident
  std::uint64_t short_blocks = 0;  ///< off-CPU stretches shorter than min_block
  std::uint64_t waiting_full = 0;  ///< off-CPU: how often the buffer of waiting threads was full
  std::uint64_t unwanted = 0;      ///< of the samples: refused
  std::uint64_t no_waker = 0;      ///< waits that ended, and what woke the thread had no room
  std::uint64_t known_kernel = 0;  ///< stacks of the kernel that were not unwound anew
  std::uint64_t wrong_kernel = 0;  ///< of those, with VITRINE_UNWINDS_AND_COPIES: they were others
  std::uint64_t like_before = 0;   ///< off-CPU: waits that were not sampled anew
  std::uint64_t not_like = 0;      ///< of those, with VITRINE_UNWINDS_AND_COPIES: they were others
  std::uint64_t known_labels = 0;  ///< on CPU: labels like those of the thread's last sample
  std::uint64_t other_labels = 0;  ///< of those, with VITRINE_UNWINDS_AND_COPIES: they were others
};

class Profiler : public ProcessTable {
 public:
  struct Sink {
    std::function<void(const StackSample&)> sample;
    /// In place of a sample of ProfilerOptions::spans: its `model` was handed over before, if it was not lost here.
    std::function<void(const vitrine_span_sample&)> span = {};
  };

  /// Loads the programs; nothing is sampled yet. Errors: as Tracer::open.
  static Result<std::unique_ptr<Profiler>> open(const ProfilerOptions& options);

  /// Off-CPU: threads that wait already are sampled, too, as waiting since now.
  virtual Result<void> start() = 0;

  /// CPUs that have come online since the start, or since the last call: they are sampled again from now on. The kernel
  /// ends the events of a CPU that goes offline, also for a suspend. See target::cpu_look_interval.
  virtual Result<std::vector<int>> renew_clocks() = 0;

  /// Samples no time from `end_ns` (CLOCK_MONOTONIC) on, however late stop() comes.
  virtual void end_at(std::uint64_t end_ns) = 0;

  /// Why the running kernel does not let us see threads that wait at the start until they have run.
  [[nodiscard]] virtual const std::optional<Error>& blind_to_waiting() const = 0;

  /// Off-CPU, of one profile after another: poll() hands over a sample that is
  /// VITRINE_SAMPLE_UNFINISHED of every thread that is off its CPU, with its time until `until_ns`
  /// (CLOCK_MONOTONIC); its later samples are of the time from there on. Stretches shorter than
  /// min_block by then are not cut.
  virtual Result<void> cut(std::uint64_t until_ns) = 0;

  /// What the kernel calls the function at one of its addresses; empty: it has no name there. Nothing: it cannot be
  /// asked. For any thread.
  virtual std::optional<std::string> kernel_function(std::uint64_t address) = 0;

  /// What is known of a Go program: from now on, samples within the vdso have the stack that called
  /// it. The 256 files used last are kept.
  virtual void know(const vitrine_executable& program, const vitrine_go_file& file) = 0;

  /// Samples with this `subject` (in their heads, not 0) are not handed over any more, until renew_rows(). Off-CPU
  /// each stretch that would begin one counts, however long.
  virtual void refuse(std::uint64_t subject) = 0;

  /// Samples of the process that this is one of are not handed over any more, until it executes another program, or
  /// select_anew(). Off-CPU they are counted as by refuse().
  virtual void refuse_process(const vitrine_stack_sample& sample) = 0;
  /// No process is refused any more.
  virtual void select_anew() = 0;

  /// Samples no more. What was sampled before is still handed over by poll(), and after it, of
  /// every thread that is off its CPU since, a sample that is VITRINE_SAMPLE_UNFINISHED.
  virtual void stop() = 0;

  /// By what stacks are unwound in the kernel; null: they are copied.
  [[nodiscard]] virtual UnwindTables* unwind_tables() = 0;

  /// Hands over what has come in, waiting for it at most `timeout`. Returns how many.
  virtual Result<std::size_t> poll(std::chrono::milliseconds timeout, const Sink& sink) = 0;

  /// CLOCK_MONOTONIC: poll() has handed over all samples of before then.
  [[nodiscard]] virtual std::uint64_t taken_until_ns() const = 0;

  /// Hands over what has been added up since the last call, of rows whose first sample poll() has handed
  /// over (`row` is in its head). To be called several times in a stretch of row_time, as a row has room
  /// for VITRINE_ROW_CELLS of them; what has no room is a sample for poll().
  virtual void take_rows(const RowTable::Sink& sink) = 0;

  /// Whether a sample has found no free row since renew_rows().
  [[nodiscard]] virtual bool rows_are_full() const = 0;

  /// Hands over all samples until now, and what has been added up; none of these rows comes again. What
  /// is sampled meanwhile is for the next poll().
  virtual Result<void> renew_rows(const Sink& sink, const RowTable::Sink& rows) = 0;

  struct Interval {
    std::uint64_t end_ns = 0;  ///< CLOCK_MONOTONIC
    Result<void> result;
  };
  /// Ends an interval: cut() and renew_rows() at one time. All samples of before are handed over, and none from then on.
  virtual Interval end_interval(const Sink& sink, const RowTable::Sink& rows) = 0;

  [[nodiscard]] virtual ProfilerCounters counters() const = 0;
};

}  // namespace vitrine::bpf
