#include "observe/profile/profiling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <thread>

#include "base/clock.hpp"
#include "base/notes.hpp"
#include "base/stop.hpp"
#include "base/text.hpp"
#include "bpf/profiler.hpp"
#include "observe/events/event_labels.hpp"
#include "observe/process/watch.hpp"
#include "observe/profile/names.hpp"
#include "observe/profile/samples.hpp"
#include "observe/profile/selection.hpp"
#include "sandbox/file_opener.hpp"
#include "sandbox/seats.hpp"
#include "target/cpu_events.hpp"
#include "target/memory_reader.hpp"
#include "target/proc_file.hpp"

namespace vitrine::observe {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// Between two looks into the ring buffer.
constexpr milliseconds shortest_rest{1}, learning_rest{5}, longest_rest{100};
/// The same of processes that were there when the profile began: none ends before its first look. Rows have room
/// for longer.
constexpr milliseconds longest_rest_of_given{1000};
/// The same where waits may come in bursts: nothing else empties the ring.
constexpr milliseconds longest_rest_off_cpu{200};
/// The same of a profile that is always on: it is to cost nothing where nothing happens.
constexpr milliseconds longest_rest_always_on{250};
/// Before events of other processes are looked at: samples are looked at by what was mapped at their time,
/// however late its event.
constexpr milliseconds longest_pause{40};
/// The same where others are not sampled.
constexpr milliseconds longest_pause_of_given{200};
/// Of one profile that the user waits for.
constexpr milliseconds longest_naming{30'000};
/// Of the time for names, one part in so many is for what processes declare of themselves.
constexpr int learning_part = 4;
/// At the end of a profile.
constexpr milliseconds longest_drain{1000};
/// Between two looks at what has no name yet: what is looked up meanwhile is not waited for at the
/// end, when the machine may be as busy. Twice as long after each look: most stacks come early, and what is asked for
/// together costs less.
constexpr milliseconds asking_ahead{400}, longest_asking_ahead{3200};
/// Of a generation, in which equal samples are added up: 2 MiB with those of the next.
constexpr std::uint32_t rows = 8192;
/// When they are all in use, others begin no sooner than so long after the last.
constexpr milliseconds shortest_generation{1000};
/// Taken in at once: a third of the smallest ring buffer, with stacks of a usual size.
constexpr std::size_t many_samples = 1024;
/// Of label sets by their ids, always on; they are kept in four forms, and then sent anew.
constexpr std::size_t always_on_sets_bytes = 1U << 20;
/// Of the buffer of samples, for each thread that may be waiting.
constexpr std::size_t bytes_of_waiting = 2048;

/// Samples of CPUs come at a known rate: there is room for a second, each sample with a copy of its
/// stack. Where the kernel unwinds, that is a quarter as long: most have no copy, the thread that takes them out begins
/// when a quarter of the buffer is full, and the kernel clears all of it at the start. How often threads leave
/// their CPUs is not known.
std::size_t usual_buffer(const ProfilingOptions& options, bool all_are_copied) {
  constexpr std::size_t least = 2U << 20;
  if (options.off_cpu) return usual_buffer_bytes;
  const std::size_t cpus = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t bytes =
      cpus * options.frequency * options.stack_bytes / (all_are_copied ? 1 : 4);
  return std::bit_ceil(std::clamp(bytes, least, usual_buffer_bytes));
}

/// Always on, stacks are unwound here until the kernel has the rules, which is once for most code.
RuleLimits rule_limits(const ProfilingOptions& options) {
  constexpr std::size_t kept_always_on = 8U << 20;
  RuleLimits limits;
  if (options.always_on) limits.kept = kept_always_on;
  return limits;
}

std::string text_of(const UnwindCounts& counts) {
  std::uint64_t copies = 0;
  std::string reasons;
  for (const auto& [reason, samples] : counts.from_copies) {
    copies += samples;
    reasons += fmt::format("{}{}: {}", reasons.empty() ? " (" : ", ", reason, samples);
  }
  std::string text = fmt::format("stacks unwound in the kernel: {}, from copies: {}{}{}",
                                 counts.in_kernel, copies, reasons, reasons.empty() ? "" : ")");
  if (counts.without_user_code != 0)
    text += fmt::format(", without user code: {}", counts.without_user_code);
  if (counts.compared != 0)
    text += fmt::format("; {} of {} agree with their copies", counts.agreed, counts.compared);
  if (counts.added != 0)
    text += fmt::format("; added up in the kernel: {}, {} of them equal, {} counted wrongly",
                        counts.added, counts.equal, counts.miscounted);
  if (counts.kernel_known != 0)
    text += fmt::format("; stacks of the kernel that were known: {}, {} of them wrong",
                        counts.kernel_known, counts.kernel_wrong);
  if (counts.like_before != 0)
    text += fmt::format("; waits like the ones before: {}, {} of them other ones",
                        counts.like_before, counts.not_like);
  if (counts.known_labels != 0)
    text += fmt::format("; labels like those of the sample before: {}, {} of them other ones",
                        counts.known_labels, counts.other_labels);
  return text;
}

/// As the kernel makes it: a power of two.
std::chrono::nanoseconds cell_time(const ProfilingOptions& options) {
  const auto most = std::max<std::int64_t>(options.time_resolution.count(), 1);
  return std::chrono::nanoseconds(std::bit_floor(static_cast<std::uint64_t>(most)));
}

/// What its keys are about.
std::uint32_t filter_of(const profile::Filter& filter) {
  std::uint32_t about = VITRINE_FILTER_BY_LABELS;
  if (filter.has_key("tid") || filter.has_key("thread")) about |= VITRINE_FILTER_BY_THREAD;
  if (filter.has_key("cpu")) about |= VITRINE_FILTER_BY_CPU;
  if (filter.has_key("trace_id") || filter.has_key("span_id")) about |= VITRINE_FILTER_BY_SPAN;
  return about;
}

class LiveProfiling final : public Profiling, private ProcessWatch::Listener {
 public:
  explicit LiveProfiling(ProfilingOptions options)
      : options_(std::move(options)),
        programs_(rule_limits(options_)),
        names_(options_.always_on ? symbol::Duty::always_on : symbol::Duty::once) {}

  Result<void> begin();

  [[nodiscard]] std::optional<Clock::time_point> end() const override {
    if (!options_.duration) return std::nullopt;
    return steady_time(end_ns_);
  }
  Result<void> poll(milliseconds timeout) override;
  [[nodiscard]] std::size_t waiting() const override { return samples_->builder().size(); }
  bool ended() override { return !options_.all && watch_->ended(); }
  void stop() override;
  void end_command() override { watch_->end_launched(); }
  void end_sampling() override {
    end_ns_ = std::min(end_ns_, kernel_time_ns());
    profiler_->end_at(end_ns_);
  }
  void begin_anew() override { (void)take_to_name(milliseconds(0)); }

  profile::Profile take() override { return take_to_name(longest_naming)(); }
  std::function<profile::Profile()> take_to_name(milliseconds time) override;
  [[nodiscard]] FilterCounts filter_counts() const override {
    const bpf::ProfilerCounters counters = profiler_->counters();
    return {counters.samples, counters.unwanted, samples_->refused()};
  }
  [[nodiscard]] UnwindCounts unwind_counts() const override {
    UnwindCounts counts = samples_->unwind_counts();
    const bpf::ProfilerCounters counters = profiler_->counters();
    counts.kernel_known = counters.known_kernel;
    counts.kernel_wrong = counters.wrong_kernel;
    counts.like_before = counters.like_before;
    counts.not_like = counters.not_like;
    counts.known_labels = counters.known_labels;
    counts.other_labels = counters.other_labels;
    return counts;
  }
  std::vector<std::string> take_notes() override;

 private:
  Result<void> check() const;
  Result<void> open_profiler();
  Result<void> go_on() const { return require_not_stopped(options_.stop, "the profile"); }
  Result<void> begin_launched();
  /// All entries of `processes_` are of this type.
  static SampledProcess& sampled(ObservedProcess& process) {
    return static_cast<SampledProcess&>(process);
  }
  [[nodiscard]] bool are_given() const { return !options_.pids.empty() && !options_.follow; }
  [[nodiscard]] milliseconds max_rest() const {
    if (options_.always_on) return longest_rest_always_on;
    if (!are_given()) return longest_rest;
    // A cell that has been begun, and one for a look that is late.
    const auto room = cell_time(options_) * (VITRINE_ROW_CELLS - 2);
    const auto most = options_.off_cpu ? longest_rest_off_cpu : longest_rest_of_given;
    return std::clamp(std::chrono::floor<milliseconds>(room), longest_rest, most);
  }
  void look_at(ObservedProcess& process);
  void give_go_files();
  void renew_clocks();
  void ask_ahead();

  // Of processes:
  /// It may have ended when its first sample is looked at.
  bool concerns(const target::ProcessEvent&) override { return options_.all; }
  void executed(ObservedProcess& process, const target::ProcessEvent& event) override {
    programs_.executed(event, sampled(process).programs);
  }
  void mapped(ObservedProcess& process, const target::ProcessEvent& event) override {
    programs_.mapped(event, sampled(process).programs);
  }
  void missed() override;
  void changed(ObservedProcess& process, bool again) override;
  void departed(ObservedProcess& process) override;
  void note(std::string text) override { notes_.add(std::move(text)); }

  Result<std::size_t> take_samples();
  Result<std::size_t> pass_over_samples();
  Result<void> look_at_samples();
  void take_rows();
  void renew_rows();
  void rows_are_renewed(const Result<void>& renewed);
  bpf::RowTable::Sink row_sink() {
    return [this](const bpf::RowPart& part) { samples_->take(part); };
  }
  std::uint64_t end_interval();
  std::uint64_t take_lost();

  ProfilingOptions options_;
  ProcessRegistry processes_{[] { return std::make_shared<SampledProcess>(); },
                             limits::observed_processes};
  std::optional<ProcessWatch> watch_;
  std::unique_ptr<bpf::Profiler> profiler_;
  std::optional<EventLabels> labels_;
  SampledPrograms programs_;
  std::optional<ProfileSamples> samples_;
  ProfileNames names_;
  /// What other threads name: it is for this one to let go of programs and files.
  std::vector<std::shared_ptr<UnnamedProfile>> in_naming_;
  Clock::time_point rows_renewed_at_ = Clock::now();
  std::uint64_t end_ns_ = ~0ULL;  ///< of the profile, CLOCK_MONOTONIC
  std::size_t buffer_bytes_ = 0;  ///< the kernel's, of samples
  Clock::time_point clocks_renewed_at_ = Clock::now();
  Clock::time_point asked_at_ = Clock::now();
  milliseconds asking_ahead_ = asking_ahead;                  ///< the next
  std::uint64_t lost_ = 0, waiting_full_ = 0, no_waker_ = 0;  ///< counted before
  milliseconds rest_ = learning_rest;  ///< between looks into the ring buffer
  std::uint64_t given_ = 0;            ///< KernelStacks::given() at the last
  Clock::time_point next_look_{};
  Clock::time_point rows_due_{};
  Notes notes_;
};

Result<void> LiveProfiling::begin() {
  TRY(check());
  TRY(go_on());
  // While this process is small; without it, each worker begins with as much memory as there is by then.
  static_cast<void>(sandbox::FileOpener::of_this_process().start());
  target::MemoryReader::of_this_thread().start();
  // Before anything is looked at, so that what happens meanwhile is not missed.
  watch_.emplace(processes_, static_cast<ProcessWatch::Listener&>(*this), options_.follow);
  watch_->set_longest_pause(are_given() && !options_.always_on ? longest_pause_of_given
                                                               : longest_pause);
  if (options_.always_on) watch_->look_less();
  TRY(watch_->add(options_.pids));
  TRY(go_on());
  TRY(open_profiler());
  TRY(go_on());
  if (!options_.command.empty()) TRY(watch_->launch(options_.command, options_.command_to_stderr));
  for (ObservedProcess* process : watch_->all()) {
    look_at(*process);
    TRY(go_on());
  }
  const std::uint64_t began_ns = kernel_time_ns();
  samples_->begin_interval(began_ns);
  // The kernel knows the end before it begins: whatever holds this process up, it samples no longer.
  if (options_.duration) {
    end_ns_ = began_ns + static_cast<std::uint64_t>(options_.duration->count());
    profiler_->end_at(end_ns_);
  }
  TRY(profiler_->start());
  return watch_->launched() != nullptr ? begin_launched() : Result<void>{};
}

Result<void> LiveProfiling::check() const {
  const int kinds = static_cast<int>(!options_.pids.empty()) +
                    static_cast<int>(!options_.command.empty()) + static_cast<int>(options_.all);
  if (kinds == 0)
    return fail(ErrorCode::usage, "nothing to profile", "give a PID, --exec -- COMMAND, or --all");
  if (kinds > 1)
    return fail(ErrorCode::usage, "processes, --exec and --all exclude each other",
                "give one of them");
  if (!options_.on_cpu && !options_.off_cpu)
    return fail(ErrorCode::usage, "neither on-CPU nor off-CPU samples are requested");
  if (options_.min_block < std::chrono::nanoseconds{0})
    return fail(ErrorCode::usage, "the shortest time off CPU that is kept is negative");
  if (options_.on_cpu) TRY(target::require_sampling_frequency(options_.frequency));
  if (options_.stack_bytes < min_stack_bytes || options_.stack_bytes > limits::stack_copy)
    return fail(ErrorCode::usage, "the bytes copied of a stack must be between " +
                                      std::to_string(min_stack_bytes) + " and " +
                                      std::to_string(limits::stack_copy));
  if (options_.stack_depth < min_stack_depth || options_.stack_depth > limits::stack_depth)
    return fail(ErrorCode::usage, "the frames kept of a stack must be between " +
                                      std::to_string(min_stack_depth) + " and " +
                                      std::to_string(limits::stack_depth));
  return target::require_own_proc();
}

Result<void> LiveProfiling::open_profiler() {
  bpf::ProfilerOptions options;
  options.frequency = options_.on_cpu ? options_.frequency : 0;
  options.off_cpu = options_.off_cpu;
  options.min_block = options_.min_block;
  options.preempted = options_.preempted;
  options.wakers = options_.wakers;
  options.every_process = options_.all;
  options.follow = options_.follow;
  if (are_given() && !options_.wakers)
    options.processes = static_cast<std::uint32_t>(options_.pids.size());
  options.kernel_stacks = options_.kernel_frames;
  options.stack_bytes = options_.stack_bytes;
  const bool all_are_copied = options_.unwind == Unwind::copy || options_.verify_unwind;
  buffer_bytes_ = std::min(options_.buffer_bytes.value_or(usual_buffer(options_, all_are_copied)),
                           max_buffer_bytes);
  options.taken_bytes = options_.buffer_bytes ? buffer_bytes_ : usual_buffer_bytes;
  options.pending_bytes = 2 * options.taken_bytes;
  options.pending_threads = static_cast<std::uint32_t>(
      std::max<std::size_t>(options.pending_threads, options.taken_bytes / bytes_of_waiting));
  options.unwinds = VITRINE_UNWINDS_NOT;
  if (options_.unwind != Unwind::copy) options.unwinds = VITRINE_UNWINDS_ELSE_COPIES;
  options.rows = rows;
  options.spans = true;
  options.row_time = options_.time_resolution;
  if (options_.only != nullptr) options.filter = filter_of(*options_.only);
  options.selects = !options_.selection.is_all() && !options_.verify_unwind;
  if (options_.verify_unwind) options.unwinds = VITRINE_UNWINDS_AND_COPIES;
  options.ring_bytes = buffer_bytes_;
  if (options_.always_on) options.kept_sets_bytes = always_on_sets_bytes;
  auto opened = bpf::Profiler::open(options);
  if (!opened && opened.error().code == ErrorCode::failed && options_.unwind == Unwind::automatic &&
      !options_.verify_unwind) {
    note("stacks are copied, not unwound in the kernel: " + opened.error().message);
    options.unwinds = VITRINE_UNWINDS_NOT;
    if (!options_.buffer_bytes) options.ring_bytes = buffer_bytes_ = usual_buffer(options_, true);
    opened = bpf::Profiler::open(options);
  }
  profiler_ = TRY(std::move(opened));
  if (const auto& why = profiler_->blind_to_waiting())
    note("threads already blocked when the profile starts are not seen until they run: " +
         why->message);
  labels_.emplace(*profiler_, options_.limits, std::vector<query::Selected>{});
  if (options_.all) labels_->expect_many_processes();
  names_.set_kernel([this](Address address) { return profiler_->kernel_function(address); });
  samples_.emplace(options_, *watch_, *labels_, programs_, *profiler_);
  return {};
}

/// A program is sampled from its first instruction; it is held again when its libraries are there,
/// as its labels may be in them.
Result<void> LiveProfiling::begin_launched() {
  Launched& launched = *watch_->launched();
  if (auto there = launched.run_to_libraries(options_.stop); !there) {
    // A program that ends before that has been sampled nevertheless.
    return there.error().code == ErrorCode::not_found ? Result<void>{} : there;
  }
  ObservedProcess* process = processes_.find(launched.pid());
  if (process != nullptr) look_at(*process);
  launched.release();
  if (process != nullptr) watch_->look_again_soon(*process);
  return {};
}

void LiveProfiling::look_at(ObservedProcess& process) {
  SampledProcess& its = sampled(process);
  labels_->look_at(its.pid(), its.labels);
  programs_.look_at(its.pid(), its.programs);
  give_go_files();
}

/// The kernel needs to know of Go programs where they keep their stacks.
void LiveProfiling::give_go_files() {
  for (const GoFile& file : programs_.take_go_files()) {
    const unwind::GoThread& its = file.thread;
    if (const auto executable = executable_of(file.file->original()))
      profiler_->know(*executable, {its.g_of_thread, its.m_of_g, its.current_of_m, its.vdso_of_m,
                                    its.stack_of_g});
  }
}

void LiveProfiling::ask_ahead() {
  const milliseconds apart =
      options_.always_on ? std::max(asking_ahead, *options_.always_on / 2) : asking_ahead_;
  sandbox::end_idle_workers();
  if (Clock::now() - asked_at_ < apart) return;
  if (options_.symbols) names_.ask_ahead(samples_->builder());
  asked_at_ = Clock::now();
  asking_ahead_ = std::min(2 * asking_ahead_, longest_asking_ahead);
}

void LiveProfiling::changed(ObservedProcess& process, bool again) {
  SampledProcess& its = sampled(process);
  if (process.is_target() && again) return look_at(process);
  // Most of those that are known by their events alone are never sampled.
  const bool is_met = its.inherited || its.kernel_tgid != 0;
  const auto is_refused = [&] {
    return !its.programs.empty() && !may_be_selected(options_.selection, *its.programs.front());
  };
  if (!process.is_target() && !is_met) return;
  if (!process.is_target() && !again) {
    // Most are never sampled: a look takes longer than all else that is done for them.
    its.labels_wait = its.labels_wait || options_.always_on.has_value();
    return;
  }
  if (!process.is_target() && is_refused()) {
    its.labels_wait = true;
    return;
  }
  // The kernel samples those that it is given: PIDs, or the command. A child of theirs is none of them.
  if (!process.is_target() && !options_.all && !options_.follow) {
    if (!options_.wakers) return;
    its.labels.is_bystander = true;
  }
  its.labels_wait = false;
  labels_->look_at(its.pid(), its.labels);
}

void LiveProfiling::missed() {
  note(
      "process events were lost, as the kernel's buffer was full or a CPU came online: what some "
      "processes had mapped is not known");
  processes_.for_each(
      [](ObservedProcess& process) { SampledPrograms::missed(sampled(process).programs); });
}

void LiveProfiling::departed(ObservedProcess& process) {
  if (processes_.find(process.pid()) == nullptr) labels_->exited(sampled(process).labels);
  samples_->departed(sampled(process));
}

Result<void> LiveProfiling::poll(milliseconds timeout) {
  const auto end = Clock::now() + timeout;
  watch_->collect_in_background();
  if (options_.always_on && options_.symbols) names_.begin();
  bool has_looked = false;
  do {
    watch_->take_events();
    watch_->look_again(profiler_->taken_until_ns());
    const auto left = std::chrono::ceil<milliseconds>(std::min(end, next_look_) - Clock::now());
    watch_->wait(std::clamp(left, milliseconds(0), max_rest()));
    // What happens to processes ends a wait, and is no reason to look.
    const auto now = Clock::now();
    const bool is_over = (options_.stop != nullptr && options_.stop->load()) || ended();
    const bool is_last = is_over || (now >= end && !has_looked);
    if (now >= next_look_ || is_last) {
      TRY(look_at_samples());
      has_looked = true;
    }
    if (is_over) break;
  } while (Clock::now() < end);
  return {};
}

Result<void> LiveProfiling::look_at_samples() {
  const auto taken = TRY(take_samples());
  take_rows();
  if (!labels_->take_named().empty()) renew_rows();
  renew_clocks();
  give_go_files();
  ask_ahead();
  if (taken < many_samples)
    if (const auto pid = labels_->take_unfinished())
      if (ObservedProcess* process = processes_.find(*pid))
        labels_->look_at(*pid, sampled(*process).labels);
  // Until the kernel has the rules that it lacks, it copies stacks.
  const std::uint64_t given = samples_->stacks().given();
  const bool has_learned = std::exchange(given_, given) != given;
  if (has_learned)
    rest_ = std::min(rest_, learning_rest);
  else if (taken > many_samples)
    rest_ = std::max(rest_ / 2, shortest_rest);
  else if (taken < many_samples / 4)
    rest_ = std::min(rest_ * 2, max_rest());
  next_look_ = Clock::now() + rest_;
  return {};
}

Result<std::size_t> LiveProfiling::take_samples() {
  auto taken = profiler_->poll(milliseconds(0), samples_->sink());
  programs_.taken_until(profiler_->taken_until_ns());
  return taken;
}

/// Which costs next to nothing.
Result<std::size_t> LiveProfiling::pass_over_samples() {
  bpf::Profiler::Sink sink = samples_->sink();
  sink.sample = [this](const bpf::StackSample&) { ++samples_->builder().losses().events; };
  return profiler_->poll(milliseconds(0), sink);
}

/// Twice while a row has room for, as a rule.
void LiveProfiling::take_rows() {
  const auto now = Clock::now();
  if (now >= rows_due_) {
    profiler_->take_rows(row_sink());
    rows_due_ = now + cell_time(options_) * (VITRINE_ROW_CELLS / 2);
  }
  if (profiler_->rows_are_full() && now - rows_renewed_at_ > shortest_generation) renew_rows();
}

/// CPUs that were offline.
void LiveProfiling::renew_clocks() {
  const auto now = Clock::now();
  const auto since = now - clocks_renewed_at_;
  if (since < std::max(target::cpu_look_interval, options_.always_on.value_or(milliseconds(0)) / 2))
    return;
  clocks_renewed_at_ = now;
  const auto renewed = profiler_->renew_clocks();
  if (!renewed) return note(renewed.error().message);
  for (const int cpu : *renewed)
    note(fmt::format(
        "CPU {} came online: what it has run in up to {:.1f}s before it was noticed is not sampled",
        cpu, std::chrono::duration<double>(since).count()));
}

/// All that was sampled until now is taken in.
void LiveProfiling::renew_rows() {
  rows_are_renewed(profiler_->renew_rows(samples_->sink(), row_sink()));
}

void LiveProfiling::rows_are_renewed(const Result<void>& renewed) {
  if (!renewed) note(renewed.error().message);
  samples_->end_rows();
  rows_renewed_at_ = Clock::now();
}

void LiveProfiling::stop() {
  profiler_->stop();
  const auto end = Clock::now() + longest_drain;
  while (true) {
    // Each may be the first of a process, which is looked at then; there may be as many as there is room.
    const bool is_late = Clock::now() >= end;
    const auto taken = is_late ? pass_over_samples() : take_samples();
    if (!taken) note(taken.error().message);
    if (!taken || *taken == 0) break;
  }
  rows_due_ = {};
  take_rows();
  if (options_.verify_unwind) renew_rows();
  const bool is_asked_for = options_.unwind == Unwind::kernel || options_.verify_unwind;
  const KernelStacks& stacks = samples_->stacks();
  if (stacks.on() && (is_asked_for || stacks.copies_often())) note(text_of(unwind_counts()));
}

/// Since the last call.
std::uint64_t LiveProfiling::take_lost() {
  const bpf::ProfilerCounters now = profiler_->counters();
  const std::uint64_t lost = now.lost - std::exchange(lost_, now.lost);
  const std::uint64_t full = now.waiting_full - std::exchange(waiting_full_, now.waiting_full);
  const std::size_t megabytes = buffer_bytes_ >> 20;
  const auto report = [&](std::string_view buffer, std::size_t size) {
    note(fmt::format(
        "samples were lost: the kernel's buffer of {} of {} MB was full (--buffer enlarges it)",
        buffer, size));
  };
  if (const std::uint64_t unknown = now.no_waker - std::exchange(no_waker_, now.no_waker))
    note(fmt::format("what ended {} wait{} is not known", unknown, unknown == 1 ? "" : "s"));
  if (lost > full) report("samples", megabytes);
  if (full != 0) report("waiting threads", 2 * megabytes);
  return lost;
}

/// All of its samples are taken in. What waits, waits in this interval too, though it is not over. Returns when it ended.
std::uint64_t LiveProfiling::end_interval() {
  const auto interval = profiler_->end_interval(samples_->sink(), row_sink());
  rows_are_renewed(interval.result);
  return std::min(interval.end_ns, end_ns_);
}

std::function<profile::Profile()> LiveProfiling::take_to_name(milliseconds time) {
  const std::uint64_t began_ns = samples_->began_ns(), to_unix_ns = samples_->to_unix_ns();
  const std::uint64_t until_ns = std::max(began_ns, end_interval());
  profiler_->select_anew();  // before what processes declare is read
  // Beside many busy processes each look waits for a CPU.
  const auto began = Clock::now();
  const bool is_hurried = options_.hurry != nullptr && options_.hurry->load();
  const milliseconds learning = is_hurried ? milliseconds(0) : time / learning_part;
  processes_.for_each([&](ObservedProcess& process) {
    const bool learns = Clock::now() < began + learning;
    if (programs_.tidy(sampled(process).programs, learns)) processes_.exited(process);
  });
  programs_.forget_unused();
  std::erase_if(in_naming_, [](const auto& unnamed) { return unnamed.use_count() == 1; });
  auto unnamed = std::make_shared<UnnamedProfile>(samples_->take_profile());
  in_naming_.push_back(unnamed);
  profile::Profile& profile = unnamed->profile;
  profile.start_ns = began_ns + to_unix_ns;
  profile.duration_ns = until_ns - began_ns;
  profile.span_ns = static_cast<std::uint64_t>(cell_time(options_).count());
  profile.frequency = options_.on_cpu ? options_.frequency : 0;
  profile.losses.events += take_lost();
  samples_->begin_interval(until_ns);
  return [this, unnamed, naming = time - learning] {
    return names_.name(*unnamed, options_.symbols, {Clock::now() + naming, options_.hurry});
  };
}

std::vector<std::string> LiveProfiling::take_notes() {
  notes_.add(labels_->take_notes());
  notes_.add(programs_.take_problems());
  notes_.add(samples_->take_notes());
  return notes_.take();
}

}  // namespace

Result<std::unique_ptr<Profiling>> Profiling::open(ProfilingOptions options) {
  auto profiling = std::make_unique<LiveProfiling>(std::move(options));
  TRY(profiling->begin());
  return profiling;
}

}  // namespace vitrine::observe
