// ProfileSamples: what the kernel reports of threads, samples and rows of equal ones, as samples of the profile
// that grows.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/notes.hpp"
#include "bpf/profiler.hpp"
#include "observe/events/event_labels.hpp"
#include "observe/process/watch.hpp"
#include "observe/profile/builder.hpp"
#include "observe/profile/equal_samples.hpp"
#include "observe/profile/kernel_stacks.hpp"
#include "observe/profile/profiling.hpp"
#include "observe/profile/program.hpp"
#include "observe/profile/wakers.hpp"
#include "unwind/frame.hpp"

namespace vitrine::observe {

/// A process, as its samples need it.
struct SampledProcess final : ObservedProcess {
  pid_t kernel_tgid = 0;   ///< 0: not sampled yet
  bool inherited = false;  ///< what it has from a process that was known
  ProcessLabels labels;
  /// They have changed, and are looked at with its first sample that is selected.
  bool labels_wait = false;
  ProgramHistory programs;

  [[nodiscard]] std::shared_ptr<ObservedProcess> child(pid_t pid) const override {
    auto its = std::make_shared<SampledProcess>();
    its->inherited = true;
    its->labels = labels.child();
    its->programs = SampledPrograms::forked(pid, programs);
    return its;
  }
};

class ProfileSamples {
 public:
  /// All must outlive this.
  ProfileSamples(const ProfilingOptions& options, ProcessWatch& watch, EventLabels& labels,
                 SampledPrograms& programs, bpf::Profiler& profiler)
      : options_(options),
        watch_(watch),
        labels_(labels),
        programs_(programs),
        profiler_(profiler),
        stacks_(profiler.unwind_tables()),
        waking_stacks_([this](Address address) { return profiler_.kernel_function(address); }) {}

  void take(const bpf::StackSample& sample);
  /// Samples that are equal to one before. If the code of their process was another by then, their
  /// stack is what that is by this code.
  void take(const bpf::RowPart& part);
  /// A sample that has all but trace and span of another one.
  void take(const vitrine_span_sample& span);
  /// All of these.
  bpf::Profiler::Sink sink() {
    return {[this](const bpf::StackSample& sample) { take(sample); },
            [this](const vitrine_span_sample& span) { take(span); }};
  }
  /// None of these rows comes again: their numbers are others' now.
  void end_rows() { equal_.end(); }

  /// From now on times are of an interval that begins at `at_ns` (kernel_time_ns()).
  void begin_interval(std::uint64_t at_ns);
  [[nodiscard]] std::uint64_t began_ns() const { return began_ns_; }
  /// What CLOCK_MONOTONIC lacks.
  [[nodiscard]] std::uint64_t to_unix_ns() const { return to_unix_ns_; }

  /// The profile as it grows.
  [[nodiscard]] ProfileBuilder& builder() { return builder_; }
  [[nodiscard]] const ProfileBuilder& builder() const { return builder_; }
  UnnamedProfile take_profile();

  [[nodiscard]] const KernelStacks& stacks() const { return stacks_; }
  void departed(const SampledProcess& process) { stacks_.departed(process.kernel_tgid); }
  [[nodiscard]] UnwindCounts unwind_counts() const;
  /// Samples that ProfilingOptions::only does not hold for, which have come in nevertheless.
  [[nodiscard]] std::uint64_t refused() const { return refused_; }
  std::vector<std::string> take_notes();

 private:
  std::optional<profile::Sample> sample_of(const bpf::StackSample& sample, EqualSample& row);
  /// `part` of a row, whose samples are `row` with this link.
  void add(EqualSample& row, profile::Index link, const bpf::RowPart& part);
  bool is_wanted(const profile::Sample& sample, const SampledProgram& program,
                 const DisplayedLabels& labels) const;
  void require_events_until(std::uint64_t time_ns);
  profile::Index stack_of(const SampledPrograms::Program& program, CodeHistory::Code code,
                          const bpf::StackSample& sample, std::vector<profile::Index> above = {});
  profile::StackEnd add_user_frames(const SampledPrograms::Program& program,
                                    CodeHistory::Code& code, const bpf::StackSample& sample,
                                    std::vector<profile::Index>& locations);
  /// The labels of a waker's thread, and `row.waker`. `is_unread`: it has some that could not be read.
  std::vector<format::Label> look_at_waker(const bpf::StackSample& waker, WokenBy by,
                                           EqualSample& row, bool& is_unread);
  /// What is above the stack of the thread that was woken. `program`: null: it has none.
  std::vector<profile::Index> frames_of_waker(const bpf::StackSample& waker,
                                              const WakingStack& stack,
                                              const SampledPrograms::Program& program,
                                              std::uint64_t& version);
  /// Whether one of frames_ is in no mapping.
  [[nodiscard]] bool has_unknown_code() const {
    return std::ranges::any_of(
        frames_, [](const unwind::Frame& frame) { return frame.region == unwind::no_region; });
  }
  profile::StackEnd unwind(SampledProgram& program, CodeHistory::Code& code,
                           const bpf::StackSample& sample);
  unwind::End unwind(SampledProgram& program, CodeHistory::Code& code, std::uint64_t time_ns,
                     const unwind::Registers& registers, const unwind::Stack& stack);

  const ProfilingOptions& options_;
  ProcessWatch& watch_;
  EventLabels& labels_;
  SampledPrograms& programs_;
  bpf::Profiler& profiler_;
  ProfileBuilder builder_;
  std::vector<unwind::Frame> frames_;     ///< of the sample at hand
  std::vector<unwind::Frame> in_kernel_;  ///< those that the kernel found
  KernelStacks stacks_;
  WakingStacks waking_stacks_;
  SeenStacks seen_;
  EqualSamples equal_;
  std::uint64_t refused_ = 0;
  std::uint64_t to_unix_ns_ = 0;       ///< what CLOCK_MONOTONIC lacks
  std::uint64_t began_ns_ = 0;         ///< this interval, CLOCK_MONOTONIC
  std::uint64_t events_until_ns_ = 0;  ///< those of processes have been taken until then
  Notes notes_;
};

}  // namespace vitrine::observe
