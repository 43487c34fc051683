#include "observe/profile/samples.hpp"

#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/limits.hpp"
#include "observe/profile/selection.hpp"

namespace vitrine::observe {
namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;

/// Why a copy of a stack, of at most so many bytes, has no more than it has.
profile::StackEnd end_of_copy(const unwind::Stack& stack, std::size_t most) {
  const Address start = stack.start_of(stack.missed);
  if (stack.missed - start >= limits::stack_copy) return profile::StackEnd::out_of_reach;
  constexpr std::size_t last_word = 8;  // the copy begins at a word
  return stack.missed - start + last_word > most ? profile::StackEnd::truncated
                                                 : profile::StackEnd::unread;
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

/// All entries of a profile's registry are of this type.
SampledProcess& sampled(ObservedProcess& process) {
  return static_cast<SampledProcess&>(process);
}

}  // namespace

/// So that what a sample's process had mapped at that time is known.
void ProfileSamples::require_events_until(std::uint64_t time_ns) {
  if (time_ns <= events_until_ns_) return;
  events_until_ns_ = kernel_time_ns();
  watch_.take_events();
}

void ProfileSamples::take(const bpf::StackSample& sample) {
  const profile::Losses before = builder_.losses();
  EqualSample row;
  auto made = sample_of(sample, row);
  if (sample.head.row != 0 || sample.head.model != 0) {
    row.sample = made;
    row.losses = difference(builder_.losses(), before);
    row.losses.truncated_labels -= row.has_trace && made && made->link == profile::none;
    row.unwound_as = stacks_.counted_as();
    equal_.take(sample, std::move(row));
  }
  if (made) builder_.add(std::move(*made));
}

/// Nothing: it is not in the profile. Fills in by what the stack of its `row` was found.
std::optional<profile::Sample> ProfileSamples::sample_of(const bpf::StackSample& sample,
                                                         EqualSample& row) {
  const vitrine_event_header& header = sample.head.event;
  require_events_until(header.time_ns);
  ObservedProcess* process = watch_.process_of(header);
  if (process == nullptr) {
    ++builder_.losses().events;
    notes_.add("only the first " + std::to_string(limits::observed_processes) +
               " processes are sampled");
    return std::nullopt;
  }
  SampledProcess& its = sampled(*process);
  const SampledPrograms::Program program =
      programs_.of(header, !is_kernel_thread(sample), its.programs, its.has_pid());
  its.kernel_tgid = header.kernel_tgid;
  const Selected selected = selected_by(options_.selection, *program, &SampledPrograms::learn);
  if (selected != Selected::yes) {
    ++refused_;
    row.is_refused = true;
    if (selected == Selected::no) profiler_.refuse_process(sample.head);
    return std::nullopt;
  }
  if (std::exchange(its.labels_wait, false) && its.has_pid())
    labels_.look_at(its.pid(), its.labels, header.kernel_tgid);
  const CodeHistory::Code code = programs_.code_of(*program, header.time_ns);
  row.program = program;
  row.version = code->version;
  std::vector<format::Label> waker_labels;
  std::vector<profile::Index> above;
  bool is_unread = false;
  if (sample.waker) {
    const WakingStack stack = waking_stacks_.look_at(*sample.waker);
    waker_labels = look_at_waker(*sample.waker, stack.by, row, is_unread);
    above = frames_of_waker(*sample.waker, stack, row.waker, row.waker_version);
  }
  stacks_.take(sample, *program, code, events_until_ns_);
  const auto pass_over = [&] {
    // The kernel learns the rules of its code, so that its samples take no copies of stacks.
    if (CodeHistory::Code then = code;
        !is_kernel_thread(sample) && sample.head.unwound != VITRINE_UNWOUND_WHOLE)
      unwind(*program, then, sample);
    return std::nullopt;
  };
  profile::Sample made;
  made.measure = is_off_cpu(sample) ? profile::Measure::off_cpu : profile::Measure::on_cpu;
  made.tid = static_cast<std::uint32_t>(header.tid);
  made.cpu = header.cpu;
  made.thread_name = bpf::comm_of(header);
  // A thread may have gone off its CPU before this interval began.
  made.time_ns = std::max<std::uint64_t>(header.time_ns, began_ns_) + to_unix_ns_;
  made.value_ns = is_off_cpu(sample) ? sample.head.off_ns : second_ns / options_.frequency;
  static const DisplayedLabels none;
  const DisplayedLabels& own =
      is_kernel_thread(sample) ? none : labels_.of(header, sample.sets, &its.labels, its.has_pid());
  DisplayedLabels both;
  if (sample.waker) {
    both = own;
    both.id = 0;
    add_waker(std::move(waker_labels), both.set);
  }
  const DisplayedLabels& labels = sample.waker ? both : own;
  if (options_.only != nullptr && !is_wanted(made, *program, labels)) {
    ++refused_;
    row.is_refused = true;
    // What could not be read now may be the next time, and names of keys may come.
    if (!options_.verify_unwind && labels.error.empty() && !labels.lacks_keys)
      profiler_.refuse(sample.head.subject);
    return pass_over();
  }
  if (!is_kernel_thread(sample) || sample.waker) {
    made.labels = builder_.labels(labels);
    made.link = builder_.link(labels);
    row.has_trace = labels.set.trace.has_value();
    is_unread |= !own.error.empty() && own.set.labels.empty();
    builder_.losses().unread_labels += is_unread;
    builder_.losses().truncated_labels += !labels.set.truncated.empty() ||
                                          (header.flags & VITRINE_FIRE_CUT) != 0 ||
                                          (!own.error.empty() && !own.set.labels.empty());
  }
  made.process = builder_.process(program);
  made.stack = stack_of(program, code, sample, std::move(above));
  return made;
}

/// By ProfilingOptions::only: as it would be in a profile.
bool ProfileSamples::is_wanted(const profile::Sample& sample, const SampledProgram& program,
                               const DisplayedLabels& labels) const {
  profile::Profile profile;
  profile::Sample alone = sample;
  profile.processes.push_back({static_cast<std::uint32_t>(program.pid), {}, {}, {}});
  alone.process = 0;
  if (!labels.set.labels.empty()) {
    profile::LabelSet& set = profile.label_sets.emplace_back();
    for (const format::Label& label : labels.set.labels) set.push_back({label.key, label.value});
    std::sort(set.begin(), set.end());
    alone.labels = 0;
  }
  if (labels.set.trace) {
    profile.links.push_back({labels.set.trace->trace_id, labels.set.trace->span_id});
    alone.link = 0;
  }
  return options_.only->holds(profile, alone);
}

void ProfileSamples::take(const bpf::RowPart& part) {
  const EqualRow row = equal_.find(part.row);
  if (row.sample == nullptr) {  // its first sample was passed over, and so are these
    if (!options_.verify_unwind) builder_.losses().events += part.samples;
    return;
  }
  row.sample->added += part.samples;
  if (!options_.verify_unwind) add(*row.sample, row.link, part);
}

void ProfileSamples::take(const vitrine_span_sample& span) {
  const EqualRow model = equal_.find(span.model);
  if (model.sample == nullptr) {
    ++builder_.losses().events;
    return;
  }
  profile::Link ids;
  std::memcpy(ids.trace_id.data(), span.trace_id, sizeof span.trace_id);
  std::memcpy(ids.span_id.data(), &span.span_id, sizeof span.span_id);
  // The model was decoded from all that it shows: ids that it does not have, no other has.
  const profile::Index link = model.sample->has_trace ? builder_.link(ids) : profile::none;
  if (span.row != 0) equal_.begin(span.row, span.model, link);
  add(*model.sample, link, {span.model, span.time_ns, 1, 0});
}

/// If the code of their process was another by then, their stack is what that is by this code. Rows come seconds after
/// their samples, whose time the history may not reach any more; then what was found of the first sample holds, as the
/// kernel has unwound all of a row by the same regions.
void ProfileSamples::add(EqualSample& row, profile::Index link, const bpf::RowPart& part) {
  if (row.is_refused) refused_ += part.samples;
  add_to(builder_.losses(), row.losses, part.samples);
  if (row.has_trace && link == profile::none) builder_.losses().truncated_labels += part.samples;
  if (row.program == nullptr) return;
  row.program->sampled = true;
  require_events_until(part.time_ns);
  std::uint64_t counted = 0;
  const bool is_code_known = row.program->code.reaches(part.time_ns) &&
                             (row.waker == nullptr || row.waker->code.reaches(part.time_ns));
  if (row.sample && !is_kernel_thread(row.first) && is_code_known) {
    const CodeHistory::Code code = programs_.code_of(*row.program, part.time_ns);
    const bool is_wakers_other =
        row.waker != nullptr &&
        programs_.code_of(*row.waker, part.time_ns)->version != row.waker_version;
    if (code->version != row.version || is_wakers_other) {
      const profile::Losses losses = builder_.losses();
      std::vector<profile::Index> above;
      if (const auto& waker = row.first.waker) {
        waker->head.event.time_ns = part.time_ns;
        above =
            frames_of_waker(*waker, waking_stacks_.look_at(*waker), row.waker, row.waker_version);
      }
      stacks_.take(row.first, *row.program, code, events_until_ns_);
      counted = 1;
      row.first.head.event.time_ns = part.time_ns;
      row.sample->stack = stack_of(row.program, code, row.first, std::move(above));
      row.version = code->version;
      row.unwound_as = stacks_.counted_as();
      builder_.losses() = losses;
    }
  }
  stacks_.count(row.unwound_as, part.samples - counted);
  if (!row.sample) return;
  profile::Sample made = *row.sample;
  made.link = link;
  made.count = part.samples;
  made.value_ns =
      is_off_cpu(row.first) ? part.off_ns : part.samples * (second_ns / options_.frequency);
  made.time_ns = std::max(part.time_ns, began_ns_) + to_unix_ns_;
  builder_.add(std::move(made));
}

profile::Index ProfileSamples::stack_of(const SampledPrograms::Program& program,
                                        CodeHistory::Code code, const bpf::StackSample& sample,
                                        std::vector<profile::Index> above) {
  const bool may_be_seen =
      sample.head.unwound == VITRINE_UNWOUND_WHOLE && !options_.verify_unwind && above.empty();
  if (may_be_seen) {
    const auto known = seen_.find(builder_.process(program), code->version, sample);
    if (known != profile::none) return known;
  }
  const std::uint64_t version = code->version;
  std::vector<profile::Index> locations = std::move(above);
  for (std::size_t n = 0; n < sample.kernel_stack.size(); ++n)
    locations.push_back(builder_.kernel_place(sample.kernel_stack[n] - (n == 0 ? 0 : 1)));
  auto end = profile::StackEnd::outermost;
  if (!is_kernel_thread(sample)) end = add_user_frames(program, code, sample, locations);
  builder_.losses().truncated_stacks += is_cut(end);
  const profile::Index stack = builder_.stack(std::move(locations), end);
  // What is not whole is counted each time; code that is not known yet may be the next time.
  if (may_be_seen && end == profile::StackEnd::outermost && stack != profile::none &&
      version == code->version && !has_unknown_code())
    seen_.add(stack);
  return stack;
}

profile::StackEnd ProfileSamples::add_user_frames(const SampledPrograms::Program& program,
                                                  CodeHistory::Code& code,
                                                  const bpf::StackSample& sample,
                                                  std::vector<profile::Index>& locations) {
  auto end = unwind(*program, code, sample);
  if (end != profile::StackEnd::outermost && code->mappings.empty()) end = profile::StackEnd::gone;
  const std::size_t depth = options_.stack_depth;
  const bool is_deep = frames_.size() > depth;
  if (is_deep && end == profile::StackEnd::outermost) end = profile::StackEnd::depth;
  // Half of what is kept is at the root.
  const std::size_t above = is_deep ? frames_.size() - depth / 2 : 0;
  for (std::size_t n = 0; n < frames_.size(); ++n) {
    if (is_deep && n == depth - depth / 2) {
      locations.push_back(builder_.text_place(profile::omitted_frames));
      n = above;
    }
    locations.push_back(
        builder_.user_place(program, *code, frames_[n].region, frames_[n].lookup()));
  }
  return end;
}

std::vector<format::Label> ProfileSamples::look_at_waker(const bpf::StackSample& waker, WokenBy by,
                                                         EqualSample& row, bool& is_unread) {
  const vitrine_event_header& header = waker.head.event;
  require_events_until(header.time_ns);
  if (by != WokenBy::thread) return labels_without_waker(by);
  ObservedProcess* process = watch_.process_of(header);
  if (process == nullptr) {
    is_unread = true;
    return labels_of_waker(header, {}, {});
  }
  SampledProcess& its = sampled(*process);
  its.kernel_tgid = header.kernel_tgid;
  // What it does on a CPU, or waits for, is not asked for.
  its.labels.is_bystander = !options_.all && !process->is_target();
  row.waker = programs_.of(header, !is_kernel_thread(waker), its.programs, its.has_pid());
  if (is_kernel_thread(waker)) return labels_of_waker(header, row.waker->facts.command, {});
  const DisplayedLabels& labels = labels_.of(header, waker.sets, &its.labels, its.has_pid());
  is_unread = !labels.error.empty() && labels.set.labels.empty();
  return labels_of_waker(header, row.waker->facts.command, labels.set);
}

/// In a stack of two, the waker's has its root on top and its leaf beside the other's.
std::vector<profile::Index> ProfileSamples::frames_of_waker(const bpf::StackSample& waker,
                                                            const WakingStack& stack,
                                                            const SampledPrograms::Program& program,
                                                            std::uint64_t& version) {
  std::vector<profile::Index> locations{builder_.text_place(waker_separator)};
  if (options_.kernel_frames)
    for (std::size_t n = stack.first; n < stack.end; ++n)
      locations.push_back(builder_.kernel_place(waker.kernel_stack[n] - (n == 0 ? 0 : 1)));
  std::string name(in_place_of_thread(stack.by));
  if (stack.by == WokenBy::thread) {
    name = bpf::comm_of(waker.head.event);
    if (program != nullptr && !is_kernel_thread(waker)) {
      CodeHistory::Code code = programs_.code_of(*program, waker.head.event.time_ns);
      stacks_.take(waker, *program, code, events_until_ns_);
      const auto end = add_user_frames(program, code, waker, locations);
      stacks_.count_no_more();
      version = code->version;
      builder_.losses().truncated_stacks += is_cut(end);
      if (end != profile::StackEnd::outermost) locations.push_back(builder_.text_place(waker_cut));
    }
  }
  locations.push_back(builder_.text_place(name));
  std::ranges::reverse(locations);
  return locations;
}

/// Of user code, into frames_.
profile::StackEnd ProfileSamples::unwind(SampledProgram& program, CodeHistory::Code& code,
                                         const bpf::StackSample& sample) {
  const std::uint64_t time_ns = sample.head.event.time_ns;
  if (KernelStacks::frames_of(sample, code->unwinder.code(), frames_)) {
    if (has_unknown_code() && programs_.look_again(program)) {
      code = programs_.code_of(program, time_ns);
      KernelStacks::frames_of(sample, code->unwinder.code(), frames_);
    }
    if (!stacks_.were_known(sample, *code, frames_)) {
      frames_.resize(1);  // where it was is known
      return profile::StackEnd::bad;
    }
    if (!options_.verify_unwind) return profile::StackEnd::outermost;
    in_kernel_ = frames_;
  }
  frames_.clear();
  const auto registers = unwind::from_pt_regs(native_machine, sample.registers);
  if (!registers) return profile::StackEnd::no_rule;
  const unwind::Stack stack{sample.stack_start, sample.stack,           sample.left_start,
                            sample.left_stack,  sample.head.stack_gaps, sample.head.left_gaps};
  const unwind::End end = unwind(program, code, time_ns, *registers, stack);
  stacks_.learn(sample, *code, frames_);
  if (sample.head.unwound == VITRINE_UNWOUND_WHOLE)
    stacks_.compare(program, *code, in_kernel_, frames_, end);
  return stack_end(end, stack, options_.stack_bytes);
}

unwind::End ProfileSamples::unwind(SampledProgram& program, CodeHistory::Code& code,
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

void ProfileSamples::begin_interval(std::uint64_t at_ns) {
  began_ns_ = at_ns;
  to_unix_ns_ = now_ns(CLOCK_REALTIME) - kernel_time_ns();
}

UnnamedProfile ProfileSamples::take_profile() {
  seen_.clear();
  return builder_.take();
}

UnwindCounts ProfileSamples::unwind_counts() const {
  UnwindCounts counts = stacks_.counts();
  counts.added = equal_.compared();
  counts.equal = equal_.agreed();
  counts.miscounted = equal_.miscounted();
  return counts;
}

std::vector<std::string> ProfileSamples::take_notes() {
  notes_.add(stacks_.take_notes());
  return notes_.take();
}

}  // namespace vitrine::observe
