#include "observe/trace/trace.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/notes.hpp"
#include "base/stop.hpp"
#include "observe/events/event_labels.hpp"
#include "observe/process/cgroups.hpp"
#include "observe/process/facts.hpp"
#include "observe/process/watch.hpp"
#include "observe/trace/attached_probes.hpp"
#include "observe/trace/files.hpp"
#include "observe/trace/fire_view.hpp"
#include "observe/trace/plan.hpp"
#include "observe/trace/program.hpp"
#include "observe/trace/reduction.hpp"

namespace vitrine::observe {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// Between two looks at what processes have done: a library that is loaded fires before that unseen.
constexpr milliseconds watch_interval{5};

/// A process, as its fires need it.
struct TracedProcess final : ObservedProcess {
  ProcessLabels labels;
  symbol::ProcessFunctions functions;  ///< of traces with stacks
  Cgroup cgroup;                       ///< of traces that ask for it: where it was last
  std::string resource;                ///< the same: as a message of OTLP
  AttachedProbes::OfProcess attached;
  /// Of a launcher that has executed what it launches: when that is held at the latest.
  std::chrono::steady_clock::time_point held_by{};

  [[nodiscard]] std::shared_ptr<ObservedProcess> child(pid_t) const override {
    auto its = std::make_shared<TracedProcess>();
    its->labels = labels.child();
    its->functions = functions.child();
    return its;
  }
};

class LiveTrace final : public Trace, private ProcessWatch::Listener {
 public:
  explicit LiveTrace(TraceOptions options)
      : options_(std::move(options)), selected_(selected_labels(options_.query)) {}

  Result<void> begin();

  Result<std::size_t> poll(milliseconds timeout, const Sink& sink) override;
  Result<std::size_t> pass_over() override;
  void set_period(std::uint64_t from_ns, std::uint64_t until_ns) override {
    tracer_->set_period(from_ns, until_ns);
  }
  void detach() override { attached_->detach(); }
  void end_command() override { watch_->end_launched(); }
  bool ended() override;
  Result<query::ReductionTable> reduction() override;
  [[nodiscard]] std::string resource() override {
    return encoded_resource(only_process().value_or(0));
  }
  [[nodiscard]] TraceCounters counters() const override;
  [[nodiscard]] bpf::Attaching attaching() const override { return tracer_->attaching(); }
  [[nodiscard]] std::vector<std::string> probes() const override;
  [[nodiscard]] std::size_t sites() const override { return plan().sites(); }
  [[nodiscard]] std::optional<Error> unmatched() const override;
  std::vector<std::string> take_notes() override;

 private:
  [[nodiscard]] bool by_file() const { return !options_.target.files.empty(); }
  /// The one process that is left, if it is one.
  [[nodiscard]] std::optional<pid_t> only_process() const {
    if (by_file() || options_.follow) return std::nullopt;
    const auto all = watch_->all();
    return all.size() == 1 ? std::optional(all.front()->pid()) : std::nullopt;
  }

  Result<void> find_targets();
  Result<void> open_tracer();
  Result<void> go_on() const { return require_not_stopped(options_.stop, "the trace"); }
  Result<void> attach_targets();
  Result<void> begin_launched();
  [[nodiscard]] const TracePlan& plan() const { return attached_->plan(); }
  using Unstarted = AttachedProbes::Unstarted;
  Result<AttachedProbes::Files> attach_process(ObservedProcess& process, Unstarted unstarted);
  void attach_later(ObservedProcess& process);
  Result<void> require_sites();
  Result<void> require_arguments();
  [[nodiscard]] bool has_stacks() const { return options_.stacks || wants_stacks(options_.query); }
  const Cgroup& cgroup_of(const bpf::Fire& fire, TracedProcess* process, bool has_pid);

  void watch_processes();
  /// All entries of `processes_` are of this type.
  static TracedProcess& traced(ObservedProcess& process) {
    return static_cast<TracedProcess&>(process);
  }
  TracedProcess* process_of(const vitrine_event_header& record);
  void look_at(ObservedProcess& process);
  void look_at_named();
  void look_on();
  // Of processes:
  bool concerns(const target::ProcessEvent& event) override {
    return by_file() && attached_->has_file(event.mapping.inode);
  }
  void executed(ObservedProcess& process, const target::ProcessEvent& event) override;
  void changed(ObservedProcess& process, bool again) override;
  void departed(ObservedProcess& process) override;
  void note(std::string text) override { notes_.add(std::move(text)); }
  void note_all(std::vector<std::string> texts) { notes_.add(std::move(texts)); }
  void show(const bpf::Fire& fire, const Sink& sink);

  TraceOptions options_;
  std::vector<query::Selected> selected_;
  ProcessRegistry processes_{[] { return std::make_shared<TracedProcess>(); },
                             limits::observed_processes};
  std::optional<ProcessWatch> watch_;
  std::unique_ptr<bpf::Tracer> tracer_;
  std::optional<EventLabels> labels_;
  std::uint64_t unread_labels_ = 0;  ///< fires that the condition rejected here
  RedactedLabels redacted_;
  std::optional<symbol::StackNames> stacks_;
  std::optional<CgroupNames> cgroups_;
  Cgroup last_cgroup_;  ///< of a process that is not observed
  Notes notes_;
  std::size_t left_out_ = 0;  ///< notes: of processes that have ended before they were attached to
  std::optional<TraceReduction> reduction_;
  std::optional<AttachedProbes> attached_;  ///< goes before what it uses
};

Result<void> LiveTrace::begin() {
  TracePlan wanted(options_.probes, options_.query, options_.force);
  auto functions = TRY(function_patterns(wanted.wanted()));
  TRY(check(options_));
  TRY(go_on());
  // Before anything is looked at, so that what happens meanwhile is not missed.
  watch_.emplace(processes_, static_cast<ProcessWatch::Listener&>(*this), options_.follow);
  if (adds_up(options_.query)) reduction_.emplace(options_.query, selected_);
  TRY(find_targets());
  TRY(go_on());
  TRY(open_tracer());
  attached_.emplace(options_, std::move(wanted), std::move(functions), only_process(), *tracer_,
                    selected_, reduction_ ? &*reduction_ : nullptr, notes_);
  TRY(go_on());
  TRY(attach_targets());
  TRY(require_arguments());
  if (options_.query.where) note_all(doubtful_words(*options_.query.where, plan().programs()));
  if (options_.query.reduction && options_.query.reduction->value)
    note_all(doubtful_words(*options_.query.reduction->value, plan().programs()));
  return {};
}

Result<void> LiveTrace::attach_targets() {
  if (watch_->launched() != nullptr) return begin_launched();
  std::optional<Error> gone;  // the first of those that have ended meanwhile
  std::size_t looked_at = 0;
  for (ObservedProcess* process : watch_->all()) {
    const auto attached = attach_process(*process, Unstarted::attach);
    TRY(go_on());
    looked_at += attached ? 1 : 0;
    if (attached) continue;
    if (attached.error().code != ErrorCode::not_found) return tl::unexpected(attached.error());
    if (!gone) gone = attached.error();
    note(attached.error().message + ": it is left out");
    ++left_out_;
  }
  if (gone && looked_at == 0) return tl::unexpected(std::move(*gone));
  TRY(attached_->attach_files(options_.target.files,
                              [&](const ProbeFile& file, const std::string& path) {
                                if (auto replaced = processes_with_replaced_file(file, path))
                                  note(std::move(*replaced));
                                labels_->assume(*file.file);
                              }));
  return require_sites();
}

Result<void> LiveTrace::find_targets() {
  TRY(watch_->add(std::span<const pid_t>(options_.target.pids)));
  left_out_ = notes_.waiting().size();
  if (options_.target.command.empty()) return {};
  return watch_->launch(options_.target.command, options_.target.command_to_stderr);
}

Result<void> LiveTrace::open_tracer() {
  bpf::TracerOptions options;
  options.attaching = options_.attaching;
  options.stop = options_.stop;
  options.ring_bytes = options_.buffer_bytes;
  options.backlog_bytes = options_.backlog_bytes;
  options.stacks = has_stacks();
  options.origins = wants_origins(options_.query);
  options.slower = options_.query.slower;
  options.reductions = reduction_.has_value();
  options.labels = !reduction_ || wants_labels(options_.query);
  options.only_known = !by_file() && !only_process();
  options.others_only = by_file();
  if (options_.held) options.from_ns = ~std::uint64_t{0};
  for (const query::Selected& selected : selected_) {
    const auto kind = selected.kind == query::Selected::Kind::label      ? VITRINE_SELECT_LABEL
                      : selected.kind == query::Selected::Kind::trace_id ? VITRINE_SELECT_TRACE_ID
                                                                         : VITRINE_SELECT_SPAN_ID;
    options.selected.push_back({kind, selected.key});
  }
  if (options.origins) cgroups_.emplace();
  tracer_ = TRY(bpf::Tracer::open(std::move(options)));
  labels_.emplace(*tracer_, options_.limits, selected_);
  if (by_file()) labels_->expect_many_processes();
  if (has_stacks()) stacks_.emplace();
  return {};
}

/// Attaches to the program, and to the libraries that it starts with, before it runs any of their
/// code. A shell or another launcher, with nothing to trace in it, is held anew where it executes
/// what it is to launch.
Result<void> LiveTrace::begin_launched() {
  Launched& launched = *watch_->launched();
  ObservedProcess* process = processes_.find(launched.pid());
  if (process == nullptr) return fail(ErrorCode::not_found, "the program has ended");
  traced(*process).held_by = {};
  TRY(attach_process(*process, Unstarted::leave));
  TRY(launched.run_to_libraries(options_.stop));
  TRY(attach_process(*process, Unstarted::attach));
  if (const auto missing = plan().unmatched(); !missing.empty())
    note(no_such_probe(options_, missing, plan().seen(), plan().missing()).message +
         "; waiting for files that it loads or executes later");
  if (plan().sites() == 0)
    launched.go_on();
  else
    launched.release();
  watch_->look_again_soon(*process);
  return {};
}

Result<void> LiveTrace::require_sites() {
  const std::vector<std::string> unmatched = plan().unmatched();
  if (!unmatched.empty() && options_.optional) {
    note(no_such_probe(options_, unmatched, plan().seen(), plan().missing()).message);
    return {};
  }
  const std::string_view missing_end = plan().missing_end();
  if (plan().sites() != 0 && unmatched.empty() && missing_end.empty()) return {};
  if (const auto absent = attached_->absent_modules(); !absent.empty() && !by_file()) {
    note(fmt::format("no file is loaded that matches --module {}; waiting for it",
                     fmt::join(absent, " or ")));
    return {};
  }
  const std::string notes = fmt::format("{}", fmt::join(notes_.waiting(), "; "));
  // Why what was found cannot be attached to.
  if (plan().sites() == 0 && notes_.waiting().size() > left_out_)
    return fail(ErrorCode::failed, "nothing to trace: " + notes);
  if (unmatched.empty() && !missing_end.empty())
    return fail(ErrorCode::failed,
                notes.empty()
                    ? "nothing to measure: what matches the start matches the end, too, and is one"
                    : fmt::format("nothing to measure, because no {} could be attached to: {}",
                                  missing_end, notes));
  Error error = no_such_probe(options_, unmatched.empty() ? plan().wanted() : unmatched,
                              plan().seen(), plan().missing());
  if (left_out_ != 0) error.message += "; " + notes;
  return tl::unexpected(std::move(error));
}

std::optional<Error> LiveTrace::unmatched() const {
  const std::vector<std::string> unmatched = plan().unmatched();
  if (options_.optional) return std::nullopt;
  if (unmatched.empty() && plan().sites() == 0)
    return Error{ErrorCode::failed, "none of the probes that match could be attached to",
                 "the notes above have the reasons"};
  if (const auto end = plan().missing_end(); unmatched.empty() && !end.empty())
    return Error{ErrorCode::failed,
                 fmt::format("nothing was measured: no {} could be attached to", end),
                 "the notes above have the reasons"};
  if (unmatched.empty()) return std::nullopt;
  if (const auto absent = attached_->absent_modules(); !absent.empty())
    return Error{
        ErrorCode::failed,
        fmt::format("no file that matches --module {} was loaded", fmt::join(absent, " or ")),
        "a pattern is of the whole path or of the file's name: --module 'libshop*.so'"};
  return no_such_probe(options_, unmatched, plan().seen(), plan().missing());
}

/// Names of arguments that no probe has.
Result<void> LiveTrace::require_arguments() {
  const TraceQuery& query = options_.query;
  const auto& programs = plan().programs();
  const auto check = [&]() -> Result<void> {
    TRY(require_names("--show", query.show, programs, BareWord::unlike_argument));
    if (!query.reduction) return {};
    const query::ReductionQuery& reduction = *query.reduction;
    const auto has_problem = [](const auto& program) { return !program->value_problem().empty(); };
    if (!programs.empty() && std::ranges::all_of(programs, has_problem))
      return fail(
          ErrorCode::failed,
          fmt::format("'{}': {}", reduction.value->title, programs.front()->value_problem()),
          "`vitrine probes` lists the arguments of each probe and their types");
    if (reduction.value)
      TRY(require_names(reduction.kind == query::ReductionKind::histogram ? "--hist" : "--sum",
                        std::span(&*reduction.value, 1), programs, BareWord::label));
    if (reduction.match)
      TRY(require_names("--match", std::span(&*reduction.match, 1), programs, BareWord::argument));
    TRY(require_names("--by", reduction.by, programs, BareWord::label));
    return {};
  };
  auto checked = check();
  if (checked || (!options_.optional && options_.target.command.empty())) return checked;
  note(checked.error().message);
  return {};
}

/// Returns the files that it has attached to.
Result<AttachedProbes::Files> LiveTrace::attach_process(ObservedProcess& process,
                                                        Unstarted unstarted) {
  look_at(process);
  return attached_->attach_process(process.pid(), traced(process).attached, unstarted);
}

/// To what a process has loaded or executed since tracing began: it was not held for that.
void LiveTrace::attach_later(ObservedProcess& process) {
  constexpr unsigned max_waits = 3;  // what is never protected is attached to at last
  const bool wait = traced(process).attached.waits < max_waits;
  const auto attached = attach_process(process, wait ? Unstarted::leave : Unstarted::attach);
  if (!attached) {
    const ErrorCode code = attached.error().code;
    if (code != ErrorCode::not_found && code != ErrorCode::interrupted)
      note(attached.error().message);
    return;
  }
  for (const auto& file : *attached)
    note(fmt::format("{} was loaded during the trace: its first fires were missed", file->path));
}

Result<std::size_t> LiveTrace::poll(milliseconds timeout, const Sink& sink) {
  const auto end = Clock::now() + timeout;
  std::size_t taken = 0;
  do {
    watch_processes();
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
    auto polled = TRY(tracer_->poll(std::clamp(left, milliseconds(0), watch_interval),
                                    [&](const bpf::Fire& fire) { show(fire, sink); }));
    taken += polled;
    look_at_named();
    if (polled == 0) look_on();
    if (options_.stop != nullptr && options_.stop->load()) break;
  } while (taken == 0 && Clock::now() < end);
  return taken;
}

void LiveTrace::watch_processes() {
  Launched* const launched = watch_->launched();
  if (launched != nullptr && launched->executed())
    if (auto begun = begin_launched(); !begun) {
      if (begun.error().code != ErrorCode::interrupted) note(begun.error().message);
      launched->release();
    }
  watch_->take_events();
  if (only_process()) attached_->watch_main_thread();
  watch_->look_again(tracer_->taken_until_ns());
}

Result<std::size_t> LiveTrace::pass_over() {
  std::size_t fires = 0;
  for (std::size_t taken = 1; taken != 0;)
    taken = TRY(tracer_->poll(milliseconds(0), [&](const bpf::Fire& fire) {
      fires += fire.head.event.kind != VITRINE_RECORD_PROCESS;
    }));
  return fires;
}

/// At processes that have named keys since.
void LiveTrace::look_at_named() {
  for (const pid_t pid : labels_->take_named())
    if (ObservedProcess* process = processes_.find(pid))
      labels_->look_at(pid, traced(*process).labels);
}

/// At a process that needed more than one look, while none waits.
void LiveTrace::look_on() {
  if (const auto pid = labels_->take_unfinished())
    if (ObservedProcess* process = processes_.find(*pid))
      labels_->look_at(*pid, traced(*process).labels);
}

/// The event comes before the stop that holds what a launcher executes: then begin_launched() attaches.
void LiveTrace::executed(ObservedProcess& process, const target::ProcessEvent& /*event*/) {
  constexpr milliseconds time_to_hold{20};
  const Launched* const launched = watch_->launched();
  if (launched != nullptr && launched->pid() == process.pid() && launched->goes_on())
    traced(process).held_by = Clock::now() + time_to_hold;
}

void LiveTrace::changed(ObservedProcess& process, bool again) {
  // The other thread executes unnoticed by what holds the launcher.
  const bool replaced = process.take_main_thread_replaced();
  if (replaced && only_process()) attached_->main_thread_replaced();
  if (!again && !replaced && Clock::now() < traced(process).held_by) return;
  if (process.is_target())
    attach_later(process);
  else if (again)
    look_at(process);
  else if (stacks_)
    stacks_->look_at(process.pid(), traced(process).functions);  // addresses have new meanings
}

void LiveTrace::departed(ObservedProcess& process) {
  if (processes_.find(process.pid()) == nullptr) labels_->exited(traced(process).labels);
}

void LiveTrace::look_at(ObservedProcess& process) {
  TracedProcess& its = traced(process);
  labels_->look_at(its.pid(), its.labels);
  if (stacks_) stacks_->look_at(its.pid(), its.functions);
  if (options_.resources) its.resource = encoded_resource(its.pid());
}

/// Null: it is not visible here, or there are too many.
TracedProcess* LiveTrace::process_of(const vitrine_event_header& record) {
  if (record.pid <= 0) return nullptr;
  if (ObservedProcess* process = watch_->process_of(record)) return &traced(*process);
  note(fmt::format("only labels of the first {} processes were read", limits::observed_processes));
  return nullptr;
}

/// Of the fire's process, then.
const Cgroup& LiveTrace::cgroup_of(const bpf::Fire& fire, TracedProcess* process, bool has_pid) {
  Cgroup& known = process == nullptr ? last_cgroup_ : process->cgroup;
  if (process == nullptr || known.id != fire.head.cgroup)
    known = cgroups_->of(fire.head.cgroup, has_pid ? fire.head.event.pid : 0);
  return known;
}

void LiveTrace::show(const bpf::Fire& fire, const Sink& sink) {
  const vitrine_event_header& record = fire.head.event;
  TracedProcess* process = process_of(record);
  const bool has_pid = process != nullptr && process->has_pid();
  if (record.kind == VITRINE_RECORD_PROCESS) {
    if (has_pid) labels_->look_at(record.pid, process->labels, record.kernel_tgid);
    return;
  }
  if (fire.head.program >= plan().programs().size() || fire.head.site >= plan().numbers()) return;
  const TraceProgram& program = *plan().programs()[fire.head.program];
  const TracedSite& site = plan().site(fire.head.site);
  const DisplayedLabels& displayed =
      labels_->of(record, fire.sets, process == nullptr ? nullptr : &process->labels, has_pid);
  FireView view(fire, program, site, displayed);
  if (cgroups_) view.take_origin(cgroup_of(fire, process, has_pid));
  const bool untested = (record.flags & VITRINE_FIRE_UNTESTED) != 0;
  if ((attached_->is_left_over(fire.head.program) || untested) &&
      !program.condition().holds(view.query())) {
    unread_labels_ += !displayed.error.empty() && program.condition().asks_labels();
    return;
  }
  if (const Redaction& redaction = options_.query.redaction; redaction.any())
    view.redact(program, redacted_.of(displayed, redaction), redaction);
  std::vector<symbol::StackFrame> stack;
  if (stacks_)
    stack = stacks_->name(record.pid, process == nullptr ? nullptr : &process->functions, has_pid,
                          record.image, fire.stack);
  if (wants_stacks(options_.query)) view.take_stack(stack);
  if (reduction_) {
    if (record.kind == VITRINE_RECORD_LATENCY) {
      const std::uint64_t began = fire.head.address;
      reduction_->add_latency(view.query(), *program.reduction(),
                              record.time_ns > began ? record.time_ns - began : 0);
    } else {
      reduction_->add(view.query(), *program.reduction());
    }
    return;
  }
  TraceEvent event = view.event(program);
  if (options_.stacks) event.stack = std::move(stack);
  if (options_.resources && process != nullptr) {
    if (process->resource.empty() && has_pid) process->resource = encoded_resource(record.pid);
    event.resource = process->resource;
  }
  if (record.kind == VITRINE_RECORD_PAIR && fire.start.program < plan().programs().size() &&
      fire.start.site < plan().numbers())
    event.start = start_of(fire, *plan().programs()[fire.start.program],
                           plan().site(fire.start.site), options_.query.redaction);
  sink(event);
}

bool LiveTrace::ended() {
  return !by_file() && watch_->ended();
}

Result<query::ReductionTable> LiveTrace::reduction() {
  if (!reduction_) return query::ReductionTable{};
  return reduction_->table(*tracer_);
}

TraceCounters LiveTrace::counters() const {
  const bpf::TracerCounters counters = tracer_->counters();
  TraceCounters all;
  all.fires = counters[VITRINE_TRACE_FIRES];
  all.busy = counters[VITRINE_TRACE_BUSY];
  all.lost = counters[VITRINE_TRACE_LOST] + all.busy;
  all.unread_labels = unread_labels_ + counters[VITRINE_TRACE_UNREAD_LABELS];
  if (!options_.query.slower) return all;
  const std::uint64_t made = counters[VITRINE_TRACE_STARTS];
  const std::uint64_t gone =
      counters[VITRINE_TRACE_STARTS_ENDED] + counters[VITRINE_TRACE_STARTS_LOST];
  all.pairs = counters[VITRINE_TRACE_STARTS_ENDED];
  all.without_start = counters[VITRINE_TRACE_ENDS_UNMATCHED];
  all.unread = counters[VITRINE_TRACE_UNREADABLE];
  all.without_end = counters[VITRINE_TRACE_STARTS_LOST];
  if (made > gone + limits::kept_starts) all.without_end += made - gone - limits::kept_starts;
  return all;
}

std::vector<std::string> LiveTrace::probes() const {
  std::set<std::string> names;
  for (std::uint32_t n = 0; n < plan().numbers(); ++n) {
    const TracedSite& site = plan().site(n);
    if (site.use == probe::SiteUse::fire && !site.is_refused)
      names.insert(plan().programs()[site.program]->probe());
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> LiveTrace::take_notes() {
  if (labels_) note_all(labels_->take_notes());
  if (stacks_) note_all(stacks_->take_notes());
  return notes_.take();
}

}  // namespace

Result<std::unique_ptr<Trace>> Trace::open(TraceOptions options) {
  auto trace = std::make_unique<LiveTrace>(std::move(options));
  TRY(trace->begin());
  return trace;
}

}  // namespace vitrine::observe
