#include "observe/profile/profiling.hpp"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <optional>

#include "base/notes.hpp"
#include "base/text.hpp"
#include "bpf/profiler.hpp"
#include "observe/events/event_labels.hpp"
#include "observe/process/watch.hpp"
#include "observe/profile/builder.hpp"
#include "observe/profile/equal_samples.hpp"
#include "observe/profile/kernel_stacks.hpp"
#include "observe/profile/program.hpp"
#include "sandbox/seats.hpp"
#include "unwind/frame.hpp"

namespace vitrine::observe {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// At one of all processes: samples of the others wait meanwhile.
constexpr milliseconds first_look{100};
/// Between two looks into the ring buffer.
constexpr milliseconds shortest_rest{1}, longest_rest{100};
/// Of one profile that the user waits for.
constexpr milliseconds longest_naming{30'000};
/// Of the time for names, one part in so many is for what processes declare of themselves.
constexpr int learning_part = 4;
/// At the end of an interval: samples go on to come.
constexpr milliseconds longest_drain{1000};
/// Between two looks at what has no name yet: what is looked up meanwhile is not waited for at the
/// end, when the machine may be as busy.
constexpr milliseconds asking_ahead{200};
/// Of a generation, in which equal samples are added up: 2 MiB with those of the next.
constexpr std::uint32_t rows = 8192;
/// Those that are added up are at most so far apart.
constexpr milliseconds row_time{68};
/// When they are all in use, others begin no sooner than so long after the last.
constexpr milliseconds shortest_generation{1000};
/// Taken in at once: an eighth of the ring buffer, with stacks of a usual size.
constexpr std::size_t many_samples = 256;
constexpr std::uint64_t second_ns = 1'000'000'000;
/// Of the buffer of samples, for each thread that may be waiting.
constexpr std::size_t bytes_of_waiting = 2048;

/// Why a copy of a stack, of at most so many bytes, has no more than it has.
profile::StackEnd end_of_copy(const unwind::Stack& stack, std::size_t most) {
  const bool is_left = !stack.left_bytes.empty();
  const Address start = is_left ? stack.left_start : stack.start;
  if (stack.missed - start >= limits::stack_copy) return profile::StackEnd::out_of_reach;
  constexpr std::size_t last_word = 8;  // the copy begins at a word
  const std::size_t copied = is_left ? stack.left_bytes.size() : stack.bytes.size();
  return copied + last_word > most ? profile::StackEnd::truncated : profile::StackEnd::unread;
}

profile::StackEnd stack_end(unwind::End end, const unwind::Stack& stack, std::size_t most) {
  switch (end) {
    case unwind::End::outermost:
      return profile::StackEnd::outermost;
    case unwind::End::truncated:
      return end_of_copy(stack, most);
    case unwind::End::other_stack:
      return profile::StackEnd::other_stack;
    case unwind::End::limit:
      return profile::StackEnd::out_of_reach;
    case unwind::End::no_rule:
      return profile::StackEnd::no_rule;
    case unwind::End::bad:
      break;
  }
  return profile::StackEnd::bad;
}

/// Of those that limits cut (profile::Losses).
bool is_cut(profile::StackEnd end) {
  return end >= profile::StackEnd::truncated && end <= profile::StackEnd::unread;
}

bool is_off_cpu(const bpf::StackSample& sample) {
  return sample.head.event.kind == VITRINE_SAMPLE_OFF_CPU;
}

bool is_kernel_thread(const bpf::StackSample& sample) {
  return sample.registers.empty();
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
    text += fmt::format(", of kernel threads: {}", counts.without_user_code);
  if (counts.compared != 0)
    text += fmt::format("; {} of {} agree with their copies", counts.agreed, counts.compared);
  if (counts.added != 0)
    text += fmt::format("; added up in the kernel: {}, {} of them equal, {} counted wrongly",
                        counts.added, counts.equal, counts.miscounted);
  return text;
}

bool has_process(const ProcessSelection& selection, const ProcessFacts& facts) {
  const std::string_view program =
      facts.executable.empty() ? std::string_view(facts.command) : file_name(facts.executable);
  return is_listed(selection.programs, program) && is_listed(selection.cgroups, facts.cgroup) &&
         is_listed(selection.containers, facts.container) &&
         is_listed(selection.services, service_name(facts));
}

/// A process, as its samples need it.
struct SampledProcess final : ObservedProcess {
  pid_t kernel_tgid = 0;   ///< 0: not sampled yet
  bool inherited = false;  ///< what it has from a process that was known
  ProcessLabels labels;
  ProgramHistory programs;

  [[nodiscard]] std::shared_ptr<ObservedProcess> child(pid_t pid) const override {
    auto its = std::make_shared<SampledProcess>();
    its->inherited = true;
    its->labels = labels.child();
    its->programs = SampledPrograms::forked(pid, programs);
    return its;
  }
};

class LiveProfiling final : public Profiling, private ProcessWatch::Listener {
 public:
  explicit LiveProfiling(ProfilingOptions options) : options_(std::move(options)) {}

  Result<void> begin();

  Clock::time_point end_after(std::chrono::nanoseconds time) override;
  Result<void> poll(milliseconds timeout) override;
  [[nodiscard]] std::size_t waiting() const override { return builder_.size(); }
  bool ended() override { return !options_.all && watch_->ended(); }
  void stop() override;
  void end_command() override { watch_->end_launched(); }
  profile::Profile take() override { return take_to_name(longest_naming)(); }
  std::function<profile::Profile()> take_to_name(milliseconds time) override;
  [[nodiscard]] UnwindCounts unwind_counts() const override;
  std::vector<std::string> take_notes() override;

 private:
  Result<void> check() const;
  Result<void> open_profiler();
  Result<void> begin_launched();
  /// All entries of `processes_` are of this type.
  static SampledProcess& sampled(ObservedProcess& process) {
    return static_cast<SampledProcess&>(process);
  }
  void look_at(ObservedProcess& process);
  void give_go_files();
  void ask_ahead();

  // Of processes:
  /// It may have ended when its first sample is looked at.
  bool concerns(const target::ProcessEvent&) override { return options_.all; }
  void executed(ObservedProcess& process, const target::ProcessEvent& event) override {
    SampledPrograms::executed(event, sampled(process).programs);
  }
  void mapped(ObservedProcess& process, const target::ProcessEvent& event) override {
    SampledPrograms::mapped(event, sampled(process).programs);
  }
  void missed() override;
  void changed(ObservedProcess& process, bool again) override;
  void departed(ObservedProcess& process) override;
  void note(std::string text) override { notes_.add(std::move(text)); }

  Result<std::size_t> take_samples(milliseconds timeout);
  Result<std::size_t> pass_over_samples();
  void take(const bpf::StackSample& sample);
  std::optional<profile::Sample> sample_of(const bpf::StackSample& sample, EqualSample& row);
  void take(const bpf::RowPart& part);
  void take_rows();
  void renew_rows();
  void require_events_until(std::uint64_t time_ns);
  profile::Index stack_of(const SampledPrograms::Program& program, CodeHistory::Code code,
                          const bpf::StackSample& sample);
  /// Whether one of frames_ is in no mapping.
  [[nodiscard]] bool has_unknown_code() const {
    return std::ranges::any_of(
        frames_, [](const unwind::Frame& frame) { return frame.region == unwind::no_region; });
  }
  profile::StackEnd unwind(SampledProgram& program, CodeHistory::Code& code,
                           const bpf::StackSample& sample);
  unwind::End unwind(SampledProgram& program, CodeHistory::Code& code, std::uint64_t time_ns,
                     const unwind::Registers& registers, const unwind::Stack& stack);
  void take_unfinished(std::uint64_t until_ns);
  std::uint64_t take_lost();
  void begin_interval(std::uint64_t at_ns);

  ProfilingOptions options_;
  ProcessRegistry processes_{[] { return std::make_shared<SampledProcess>(); },
                             limits::observed_processes};
  std::optional<ProcessWatch> watch_;
  std::unique_ptr<bpf::Profiler> profiler_;
  std::optional<EventLabels> labels_;
  SampledPrograms programs_;
  ProfileBuilder builder_;
  ProfileNames names_;
  /// What other threads name: it is for this one to let go of programs and files.
  std::vector<std::shared_ptr<UnnamedProfile>> in_naming_;
  std::vector<unwind::Frame> frames_;     ///< of the sample at hand
  std::vector<unwind::Frame> in_kernel_;  ///< those that the kernel found
  std::optional<KernelStacks> stacks_;
  SeenStacks seen_;
  EqualSamples equal_;
  Clock::time_point rows_renewed_at_ = Clock::now();
  std::uint64_t to_unix_ns_ = 0;       ///< what CLOCK_MONOTONIC lacks
  std::uint64_t began_ns_ = 0;         ///< this interval, CLOCK_MONOTONIC
  std::uint64_t end_ns_ = ~0ULL;       ///< of the profile, CLOCK_MONOTONIC
  std::uint64_t events_until_ns_ = 0;  ///< those of processes have been taken until then
  Clock::time_point asked_at_ = Clock::now();
  std::uint64_t lost_ = 0, waiting_full_ = 0;  ///< counted before
  milliseconds rest_{5};                       ///< between looks into the ring buffer
  Notes notes_;
};

Result<void> LiveProfiling::begin() {
  TRY(check());
  // Before anything is looked at, so that what happens meanwhile is not missed.
  watch_.emplace(processes_, static_cast<ProcessWatch::Listener&>(*this), options_.follow);
  for (const pid_t pid : options_.pids) TRY(watch_->add(pid));
  TRY(open_profiler());
  if (!options_.command.empty()) TRY(watch_->launch(options_.command));
  for (ObservedProcess* process : watch_->all()) look_at(*process);
  begin_interval(now_ns(CLOCK_MONOTONIC));
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
  if (options_.on_cpu && (options_.frequency == 0 || options_.frequency > max_frequency))
    return fail(ErrorCode::usage, "the sampling frequency must be between 1 and " +
                                      std::to_string(max_frequency) + " Hz");
  if (options_.stack_bytes < min_stack_bytes || options_.stack_bytes > limits::stack_copy)
    return fail(ErrorCode::usage, "the bytes copied of a stack must be between " +
                                      std::to_string(min_stack_bytes) + " and " +
                                      std::to_string(limits::stack_copy));
  if (options_.stack_depth < min_stack_depth || options_.stack_depth > limits::stack_depth)
    return fail(ErrorCode::usage, "the frames kept of a stack must be between " +
                                      std::to_string(min_stack_depth) + " and " +
                                      std::to_string(limits::stack_depth));
  return {};
}

Result<void> LiveProfiling::open_profiler() {
  bpf::ProfilerOptions options;
  options.frequency = options_.on_cpu ? options_.frequency : 0;
  options.off_cpu = options_.off_cpu;
  options.min_block = options_.min_block;
  options.preempted = options_.preempted;
  options.every_process = options_.all;
  options.follow = options_.follow;
  options.kernel_stacks = options_.kernel_frames;
  options.stack_bytes = options_.stack_bytes;
  options.taken_bytes = std::min(options_.buffer_bytes, max_buffer_bytes);
  options.pending_bytes = 2 * options.taken_bytes;
  options.pending_threads = static_cast<std::uint32_t>(
      std::max<std::size_t>(options.pending_threads, options.taken_bytes / bytes_of_waiting));
  options.unwinds = VITRINE_UNWINDS_NOT;
  if (options_.unwind != Unwind::copy) options.unwinds = VITRINE_UNWINDS_ELSE_COPIES;
  options.rows = rows;
  options.row_time = row_time;
  if (options_.verify_unwind) options.unwinds = VITRINE_UNWINDS_AND_COPIES;
  // Not less where stacks are unwound in the kernel: until it has the rules, it copies them.
  options.ring_bytes = options.taken_bytes;
  auto opened = bpf::Profiler::open(options);
  if (!opened && opened.error().code == ErrorCode::failed && options_.unwind == Unwind::automatic &&
      !options_.verify_unwind) {
    note("stacks are copied, not unwound in the kernel: " + opened.error().message);
    options.unwinds = VITRINE_UNWINDS_NOT;
    opened = bpf::Profiler::open(options);
  }
  profiler_ = TRY(std::move(opened));
  stacks_.emplace(profiler_->unwind_tables());
  if (const auto& why = profiler_->blind_to_waiting())
    note("threads already blocked when the profile starts are not seen until they run: " +
         why->message);
  labels_.emplace(*profiler_, options_.limits, std::vector<query::Selected>{});
  if (options_.all) labels_->set_first_look(first_look);
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
  for (const GoFile& file : programs_.take_go_files())
    if (const auto executable = executable_of(file.file->original()))
      profiler_->know(*executable, {file.call.m_of_g, file.call.stack_of_m});
}

void LiveProfiling::ask_ahead() {
  if (Clock::now() - asked_at_ < asking_ahead) return;
  sandbox::end_idle_workers();
  if (options_.symbols) names_.ask_ahead(builder_);
  asked_at_ = Clock::now();
}

void LiveProfiling::changed(ObservedProcess& process, bool again) {
  SampledProcess& its = sampled(process);
  if (process.is_target() && again) return look_at(process);
  // Most of those that are known by their events alone are never sampled.
  const bool is_met = its.inherited || its.kernel_tgid != 0;
  if (process.is_target() || (again && is_met)) labels_->look_at(its.pid(), its.labels);
}

void LiveProfiling::missed() {
  note(
      "the kernel's buffer of process events was full: what some processes had mapped is not "
      "known");
  processes_.for_each(
      [](ObservedProcess& process) { SampledPrograms::missed(sampled(process).programs); });
}

/// So that what a sample's process had mapped at that time is known.
void LiveProfiling::require_events_until(std::uint64_t time_ns) {
  if (time_ns <= events_until_ns_) return;
  events_until_ns_ = now_ns(CLOCK_MONOTONIC);
  watch_->take_events();
}

void LiveProfiling::departed(ObservedProcess& process) {
  if (processes_.find(process.pid()) == nullptr) labels_->exited(sampled(process).labels);
  stacks_->departed(sampled(process).kernel_tgid);
}

void LiveProfiling::begin_interval(std::uint64_t at_ns) {
  began_ns_ = at_ns;
  to_unix_ns_ = now_ns(CLOCK_REALTIME) - now_ns(CLOCK_MONOTONIC);
}

Clock::time_point LiveProfiling::end_after(std::chrono::nanoseconds time) {
  end_ns_ = began_ns_ + static_cast<std::uint64_t>(time.count());
  profiler_->end_at(end_ns_);
  return Clock::time_point(std::chrono::nanoseconds(end_ns_));  // it is CLOCK_MONOTONIC
}

Result<void> LiveProfiling::poll(milliseconds timeout) {
  const auto end = Clock::now() + timeout;
  watch_->collect_in_background();
  do {
    watch_->take_events();
    watch_->look_again();
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
    watch_->wait(std::clamp(left, milliseconds(0), rest_));
    const auto taken = TRY(take_samples(milliseconds(0)));
    take_rows();
    give_go_files();
    ask_ahead();
    if (taken < many_samples)
      if (const auto pid = labels_->take_unfinished())
        if (ObservedProcess* process = processes_.find(*pid))
          labels_->look_at(*pid, sampled(*process).labels);
    if (taken > many_samples)
      rest_ = std::max(rest_ / 2, shortest_rest);
    else if (taken < many_samples / 4)
      rest_ = std::min(rest_ * 2, longest_rest);
    if (options_.stop != nullptr && options_.stop->load()) break;
  } while (Clock::now() < end);
  return {};
}

Result<std::size_t> LiveProfiling::take_samples(milliseconds timeout) {
  return profiler_->poll(timeout, [this](const bpf::StackSample& sample) { take(sample); });
}

/// Which costs next to nothing.
Result<std::size_t> LiveProfiling::pass_over_samples() {
  return profiler_->poll(milliseconds(0),
                         [this](const bpf::StackSample&) { ++builder_.losses().events; });
}

void LiveProfiling::take(const bpf::StackSample& sample) {
  const profile::Losses before = builder_.losses();
  EqualSample row;
  auto made = sample_of(sample, row);
  if ((sample.head.event.flags & VITRINE_SAMPLE_ADDED) != 0) {
    equal_.compare(sample, made);
  } else if (sample.head.row != 0) {
    row.sample = made;
    row.losses = difference(builder_.losses(), before);
    row.unwound_as = stacks_->counted_as();
    equal_.begin(sample, std::move(row));
  }
  if (made) builder_.add(std::move(*made));
}

/// Nothing: it is not in the profile. Fills in by what the stack of its `row` was found.
std::optional<profile::Sample> LiveProfiling::sample_of(const bpf::StackSample& sample,
                                                        EqualSample& row) {
  const vitrine_event_header& header = sample.head.event;
  require_events_until(header.time_ns);
  ObservedProcess* process = watch_->process_of(header);
  if (process == nullptr) {
    ++builder_.losses().events;
    note("only the first " + std::to_string(limits::observed_processes) + " processes are sampled");
    return std::nullopt;
  }
  SampledProcess& its = sampled(*process);
  const SampledPrograms::Program program =
      programs_.of(header, !is_kernel_thread(sample), its.programs, its.has_pid());
  const CodeHistory::Code code = programs_.code_of(*program, header.time_ns);
  its.kernel_tgid = header.kernel_tgid;
  row.program = program;
  row.version = code->version;
  stacks_->take(sample, *program, code, events_until_ns_);
  if (!has_process(options_.selection, program->facts)) {
    // The kernel learns the rules of its code, so that its samples take no copies of stacks.
    if (CodeHistory::Code then = code;
        !is_kernel_thread(sample) && sample.head.unwound != VITRINE_UNWOUND_WHOLE)
      unwind(*program, then, sample);
    return std::nullopt;
  }
  profile::Sample made;
  made.measure = is_off_cpu(sample) ? profile::Measure::off_cpu : profile::Measure::on_cpu;
  made.stack = stack_of(program, code, sample);
  made.process = builder_.process(program);
  made.tid = static_cast<std::uint32_t>(header.tid);
  made.cpu = header.cpu;
  made.thread_name = bpf::comm_of(header);
  // A thread may have gone off its CPU before this interval began.
  made.time_ns = std::max<std::uint64_t>(header.time_ns, began_ns_) + to_unix_ns_;
  made.value_ns = is_off_cpu(sample) ? sample.head.off_ns : second_ns / options_.frequency;
  if (!is_kernel_thread(sample)) {
    const DisplayedLabels& labels = labels_->of(header, sample.sets, &its.labels, its.has_pid());
    made.labels = builder_.labels(labels);
    made.link = builder_.link(labels);
    builder_.losses().unread_labels += !labels.error.empty() && labels.set.labels.empty();
    builder_.losses().truncated_labels +=
        !labels.set.truncated.empty() || (header.flags & VITRINE_FIRE_CUT) != 0;
  }
  return made;
}

/// Samples that are equal to one before. If the code of their process was another by then, their stack
/// is what that is by this code.
void LiveProfiling::take(const bpf::RowPart& part) {
  EqualSample* row = equal_.find(part.row);
  if (row == nullptr) {  // its first sample was passed over, and so are these
    if (!options_.verify_unwind) builder_.losses().events += part.samples;
    return;
  }
  row->added += part.samples;
  if (options_.verify_unwind) return;
  add_to(builder_.losses(), row->losses, part.samples);
  if (row->program == nullptr) return;
  row->program->sampled = true;
  require_events_until(part.time_ns);
  std::uint64_t counted = 0;
  if (row->sample && !is_kernel_thread(row->first)) {
    const CodeHistory::Code code = programs_.code_of(*row->program, part.time_ns);
    if (code->version != row->version) {
      stacks_->take(row->first, *row->program, code, events_until_ns_);
      counted = 1;
      const profile::Losses losses = builder_.losses();
      row->first.head.event.time_ns = part.time_ns;
      row->sample->stack = stack_of(row->program, code, row->first);
      row->version = code->version;
      row->unwound_as = stacks_->counted_as();
      builder_.losses() = losses;
    }
  }
  stacks_->count(row->unwound_as, part.samples - counted);
  if (!row->sample) return;
  profile::Sample made = *row->sample;
  made.count = part.samples;
  made.value_ns =
      is_off_cpu(row->first) ? part.off_ns : part.samples * (second_ns / options_.frequency);
  made.time_ns = std::max(part.time_ns, began_ns_) + to_unix_ns_;
  builder_.add(std::move(made));
}

void LiveProfiling::take_rows() {
  profiler_->take_rows([this](const bpf::RowPart& part) { take(part); });
  if (profiler_->rows_are_full() && Clock::now() - rows_renewed_at_ > shortest_generation)
    renew_rows();
}

/// All that was sampled until now is taken in.
void LiveProfiling::renew_rows() {
  auto renewed = profiler_->renew_rows([this](const bpf::StackSample& sample) { take(sample); },
                                       [this](const bpf::RowPart& part) { take(part); });
  if (!renewed) note(renewed.error().message);
  equal_.end();
  rows_renewed_at_ = Clock::now();
}

profile::Index LiveProfiling::stack_of(const SampledPrograms::Program& program,
                                       CodeHistory::Code code, const bpf::StackSample& sample) {
  const bool may_be_seen = sample.head.unwound == VITRINE_UNWOUND_WHOLE && !options_.verify_unwind;
  if (may_be_seen) {
    const auto known = seen_.find(builder_.process(program), code->version, sample);
    if (known != profile::none) return known;
  }
  const std::uint64_t version = code->version;
  std::vector<profile::Index> locations;
  for (std::size_t n = 0; n < sample.kernel_stack.size(); ++n)
    locations.push_back(builder_.kernel_place(sample.kernel_stack[n] - (n == 0 ? 0 : 1)));
  auto end = profile::StackEnd::outermost;
  if (!is_kernel_thread(sample)) {
    end = unwind(*program, code, sample);
    if (end != profile::StackEnd::outermost && code->mappings.empty())
      end = profile::StackEnd::gone;
    const std::size_t depth = options_.stack_depth;
    const bool is_deep = frames_.size() > depth;
    if (is_deep && end == profile::StackEnd::outermost) end = profile::StackEnd::depth;
    // Half of what is kept is at the root.
    const std::size_t above = is_deep ? frames_.size() - depth / 2 : 0;
    for (std::size_t n = 0; n < frames_.size(); ++n) {
      if (is_deep && n == depth - depth / 2) {
        locations.push_back(builder_.omitted_place());
        n = above;
      }
      locations.push_back(
          builder_.user_place(program, *code, frames_[n].region, frames_[n].lookup()));
    }
  }
  builder_.losses().truncated_stacks += is_cut(end);
  const profile::Index stack = builder_.stack(std::move(locations), end);
  // What is not whole is counted each time; code that is not known yet may be the next time.
  if (may_be_seen && end == profile::StackEnd::outermost && stack != profile::none &&
      version == code->version && !has_unknown_code())
    seen_.add(stack);
  return stack;
}

/// Of user code, into frames_.
profile::StackEnd LiveProfiling::unwind(SampledProgram& program, CodeHistory::Code& code,
                                        const bpf::StackSample& sample) {
  const std::uint64_t time_ns = sample.head.event.time_ns;
  if (KernelStacks::frames_of(sample, code->unwinder.code(), frames_)) {
    if (has_unknown_code() && programs_.look_again(program)) {
      code = programs_.code_of(program, time_ns);
      KernelStacks::frames_of(sample, code->unwinder.code(), frames_);
    }
    if (!stacks_->were_known(sample, *code, frames_)) {
      frames_.resize(1);  // where it was is known
      return profile::StackEnd::bad;
    }
    if (!options_.verify_unwind) return profile::StackEnd::outermost;
    in_kernel_ = frames_;
  }
  frames_.clear();
  const auto registers = unwind::from_pt_regs(native_machine, sample.registers);
  if (!registers) return profile::StackEnd::no_rule;
  const unwind::Stack stack{sample.stack_start, sample.stack, sample.left_start, sample.left_stack};
  const unwind::End end = unwind(program, code, time_ns, *registers, stack);
  stacks_->learn(sample, *code, frames_);
  if (sample.head.unwound == VITRINE_UNWOUND_WHOLE)
    stacks_->compare(program, *code, in_kernel_, frames_, end);
  return stack_end(end, stack, options_.stack_bytes);
}

unwind::End LiveProfiling::unwind(SampledProgram& program, CodeHistory::Code& code,
                                  std::uint64_t time_ns, const unwind::Registers& registers,
                                  const unwind::Stack& stack) {
  auto end = code->unwinder.unwind(registers, stack, frames_);
  const bool unknown = end == unwind::End::bad || frames_.front().region == unwind::no_region;
  if (unknown && programs_.look_again(program)) {
    code = programs_.code_of(program, time_ns);
    end = code->unwinder.unwind(registers, stack, frames_);
  }
  return end;
}

void LiveProfiling::stop() {
  profiler_->stop();
  const auto end = Clock::now() + longest_drain;
  while (true) {
    // Each may be the first of a process, which is looked at then; there may be as many as there is room.
    const bool is_late = Clock::now() >= end;
    const auto taken = is_late ? pass_over_samples() : take_samples(milliseconds(0));
    if (!taken) note(taken.error().message);
    if (!taken || *taken == 0) break;
  }
  take_rows();
  if (options_.verify_unwind) renew_rows();
  const bool is_asked_for = options_.unwind == Unwind::kernel || options_.verify_unwind;
  if (stacks_->on() && (is_asked_for || stacks_->copies_often())) note(text_of(unwind_counts()));
}

/// Since the last call.
std::uint64_t LiveProfiling::take_lost() {
  const bpf::ProfilerCounters now = profiler_->counters();
  const std::uint64_t lost = now.lost - std::exchange(lost_, now.lost);
  const std::uint64_t full = now.waiting_full - std::exchange(waiting_full_, now.waiting_full);
  const std::size_t megabytes = options_.buffer_bytes >> 20;
  const auto report = [&](std::string_view buffer, std::size_t size) {
    note(fmt::format(
        "samples were lost: the kernel's buffer of {} of {} MB was full (--buffer enlarges it)",
        buffer, size));
  };
  if (lost > full) report("samples", megabytes);
  if (full != 0) report("waiting threads", 2 * megabytes);
  return lost;
}

/// What waits, waits in this interval too, though it is not over.
void LiveProfiling::take_unfinished(std::uint64_t until_ns) {
  if (auto cut = profiler_->cut(until_ns); !cut) note(cut.error().message);
  const auto end = Clock::now() + longest_drain;
  while (Clock::now() < end) {
    const auto taken = take_samples(milliseconds(0));
    if (!taken) return note(taken.error().message);
    if (*taken == 0) return;
  }
}

std::function<profile::Profile()> LiveProfiling::take_to_name(milliseconds time) {
  const std::uint64_t until_ns = std::max(began_ns_, std::min(now_ns(CLOCK_MONOTONIC), end_ns_));
  if (options_.off_cpu) take_unfinished(until_ns);
  renew_rows();
  // Beside many busy processes each look waits for a CPU.
  const auto began = Clock::now();
  const bool is_hurried = options_.hurry != nullptr && options_.hurry->load();
  const milliseconds learning = is_hurried ? milliseconds(0) : time / learning_part;
  processes_.for_each([&](ObservedProcess& process) {
    const bool learns = Clock::now() < began + learning;
    if (SampledPrograms::tidy(sampled(process).programs, learns)) processes_.exited(process);
  });
  programs_.forget_unused();
  std::erase_if(in_naming_, [](const auto& unnamed) { return unnamed.use_count() == 1; });
  auto unnamed = std::make_shared<UnnamedProfile>(builder_.take());
  seen_.clear();
  in_naming_.push_back(unnamed);
  profile::Profile& profile = unnamed->profile;
  profile.start_ns = began_ns_ + to_unix_ns_;
  profile.duration_ns = until_ns - began_ns_;
  profile.span_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(row_time).count());
  profile.frequency = options_.on_cpu ? options_.frequency : 0;
  profile.losses.events += take_lost();
  begin_interval(until_ns);
  return [this, unnamed, naming = time - learning] {
    return names_.name(*unnamed, options_.symbols, {Clock::now() + naming, options_.hurry});
  };
}

UnwindCounts LiveProfiling::unwind_counts() const {
  UnwindCounts counts = stacks_->counts();
  counts.added = equal_.compared();
  counts.equal = equal_.agreed();
  counts.miscounted = equal_.miscounted();
  return counts;
}

std::vector<std::string> LiveProfiling::take_notes() {
  notes_.add(labels_->take_notes());
  notes_.add(programs_.take_problems());
  notes_.add(stacks_->take_notes());
  return notes_.take();
}

}  // namespace

Result<std::unique_ptr<Profiling>> Profiling::open(ProfilingOptions options) {
  auto profiling = std::make_unique<LiveProfiling>(std::move(options));
  TRY(profiling->begin());
  return profiling;
}

}  // namespace vitrine::observe
