// vitrine trace: probes as they fire, with arguments and labels; or sums of them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <optional>

#include "base/clock.hpp"
#include "base/file_descriptor.hpp"
#include "base/standard_output.hpp"
#include "cli/output/json.hpp"
#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "cli/shell/confinement.hpp"
#include "cli/shell/options.hpp"
#include "cli/shell/output_file.hpp"
#include "cli/shell/report.hpp"
#include "cli/shell/run.hpp"
#include "cli/trace/metrics.hpp"
#include "cli/trace/output.hpp"
#include "cli/trace/query_options.hpp"
#include "cli/trace/reduction.hpp"
#include "cli/trace/sending.hpp"
#include "observe/probes/functions.hpp"
#include "observe/trace/trace.hpp"
#include "probe/function_pattern.hpp"
#include "sandbox/confinement.hpp"

namespace vitrine::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds longest_wait{100};
constexpr std::chrono::seconds metrics_interval{15};  // as Prometheus looks
constexpr std::size_t max_buffer_mib = 1024;

/// Of fires that wait to be shown: no large part of what memory there is. Where threads fire again and again, twenty to
/// thirty bytes are one fire's (bpf/packed_record.hpp): two million and more.
std::size_t backlog_bytes() {
  constexpr std::uint64_t usual = 64U << 20;
  constexpr unsigned of_group = 8, of_machine = 16;
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  std::uint64_t bytes = std::min<std::uint64_t>(usual, sandbox::share_of_memory(of_group));
  if (pages > 0 && page > 0)
    bytes = std::min(
        bytes, static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) / of_machine);
  return static_cast<std::size_t>(bytes);
}

/// 250us, 10ms, 2s: in the largest unit of which it is a whole number.
std::string whole_units(std::chrono::nanoseconds time) {
  std::int64_t count = time.count();
  const char* unit = "ns";
  for (const char* larger : {"us", "ms", "s"}) {
    if (count == 0 || count % 1000 != 0) break;
    count /= 1000;
    unit = larger;
  }
  return fmt::format("{}{}", count, unit);
}

/// The bare names of --show. Whether one is the key of a label or a slip is not known before a thread
/// has that label.
class ShownNames {
 public:
  ShownNames() = default;
  explicit ShownNames(const std::vector<query::Item>& items) {
    for (std::size_t i = 0; i < items.size(); ++i)
      if (items[i].subject.kind == query::Subject::Kind::word)
        names_.push_back({i, items[i].subject.name});
  }

  void look_at(const observe::TraceEvent& event) {
    if (!names_.empty())
      std::erase_if(names_, [&](const Name& name) {
        return name.place < event.arguments.size() && event.arguments[name.place].value;
      });
  }

  /// Those that no fire had.
  void report() const {
    for (const Name& name : names_)
      note(fmt::format("--show: no fire has an argument or a label '{}'", name.text));
  }

 private:
  struct Name {
    std::size_t place = 0;
    std::string text;
  };
  std::vector<Name> names_;
};

class TraceCommand : public Command {
 public:
  Manual manual() const override {
    return {
        "trace",
        "show probes as they fire, with arguments and labels",
        {"Attaches to static probes of a process, of a file in every process that runs or loads "
         "it, now or later, or of a command from its first instruction. Shows the time, the thread "
         "and the arguments of each fire, and the labels and trace context that the thread had in "
         "force, in every format that the process publishes. Stops no thread, and leaves nothing "
         "behind, however vitrine ends.",
         "TARGET is a process ID or a file (or a program in PATH); more process IDs, or more files "
         "with a slash in their paths, may follow. A PROBE is PROVIDER:NAME, or "
         "NAME alone, each with shell wildcards (quote them); `vitrine probes` lists the probes. "
         "Each PROBE and both probes of --latency "
         "must match a probe that the target has when the trace starts, or with --optional a "
         "note names them. --module restricts them to files of a process; a plug-in that is not "
         "loaded yet is waited for.",
         "Any function is a probe: func:MODULE:FUNCTION fires when it is entered, and "
         "func:MODULE:FUNCTION:return when it returns. MODULE is a path, or the name of a program "
         "or "
         "library (libc, libc.so.6); without TARGET it is traced in every process. FUNCTION is a "
         "name of C, a qualified name of C++ or Rust with or without parameters "
         "(shop::Order::charge), a name of Go, or an address in the file (0x11e0). Parameters have "
         "their names and types where there is debug information, else arg0, arg1, … are the "
         "registers that carry parameters; of a return, arg0 and `return` are the result. "
         "--latency "
         "FUNCTION is the duration of its calls, recursive ones included. Calls that the compiler "
         "has inlined do not fire; those that an exception leaves have no return.",
         "Typed probes (<vitrine/sdt.h>) show names, strings and enumerators. Other probes carry "
         "only numbers: --show 'str(arg1)' follows a pointer.",
         "A CONDITION compares arguments (arg0, or by name), labels (tenant, label.route), pid, "
         "tid, comm, cpu, uid, cgroup, container, probe, module, site, func, trace_id and span_id "
         "with "
         "numbers and text: "
         "== != < <= > >=, ~ "
         "for wildcards, and, or, not. The kernel evaluates what it can. ITEMs are the same "
         "operands, stack, and str(arg1), str(arg1, 16), buf(arg1, arg2), hex(arg0), ns(arg0), "
         "each "
         "optionally "
         "`as TITLE`. Integers through pointers (*(int32*)arg2, *(uint64*)(arg2 + 8)) and "
         "arithmetic "
         "of C on integer arguments (arg0 & 4) work in all of them.",
         "vitrine attaches to a probe if the instruction at its site is a nop, as the note "
         "declares; it omits other sites and prints a note with the instruction. --force attaches "
         "to them, too, and to sites where this kernel is known to harm programs. A breakpoint in "
         "the middle of an instruction breaks the program.",
         "vitrine attaches to a library that a process loads during the trace within some "
         "milliseconds: probes in its constructors are seen only if the library itself is traced "
         "as a FILE.",
         "Code that checks whether its probe is traced stays off where the file has the semaphore "
         "in a page that is mapped twice (vitrine check: sdt.semaphore-page) and the process "
         "starts after the trace of a FILE, or with --follow: a note reports it. Trace the running "
         "process by its PID, or use --exec.",
         "With --follow, every process that loads a file with the probe pays the cost of a fire, "
         "because the kernel cannot limit a uprobe to a process tree.",
         "--slower shows each pair of --latency that took longer than TIME: when it ended, how "
         "long "
         "it took, the arguments of both probes, and the labels (and with --stack the functions) "
         "of its end. The kernel compares the times: faster pairs cost no event. --where and "
         "--show "
         "apply to the end.",
         "--stack shows the functions that led to the fire, the innermost first, by the symbols of "
         "the files or their debug files. The kernel follows frame pointers: programs and "
         "libraries built with -fno-omit-frame-pointer have almost complete stacks (a function "
         "without a frame of its own hides its caller); stacks of other code lack callers.",
         "-o FILE.prom keeps what was added up in a file for the textfile collector of Prometheus' "
         "node exporter: a counter of fires, a summary, or a histogram whose buckets end at powers "
         "of two, with the probe and --by as labels. Counters start at 0 with each vitrine. The "
         "first 1000 groups have series of their own; all later ones together are the group "
         "__other__.",
         "--export sends to an OpenTelemetry Collector, by OTLP over HTTP or gRPC: what is added "
         "up as "
         "metrics, after each interval (cumulative sums, exponential histograms, with --exemplars "
         "the "
         "trace of a fire); pairs of --spans or --slower as spans, whose parent is the span that "
         "the "
         "thread was in; and single fires as log records, with arguments and labels as attributes "
         "and the trace and span of the thread. Requests that are not accepted yet are retried, "
         "and "
         "wait in memory or in --spool; lost ones are counted and reported.",
         "With --json, what a command of --exec writes to standard output goes to standard error.",
         "A thread of vitrine empties the kernel's buffer into memory (up to 64 MB), so that slow "
         "output does not fill it. Fires for which the buffer has no room are counted and "
         "reported; --buffer enlarges it. The traced program never waits."},
        {{"vitrine trace 4242 'shop:*'", "every probe of the provider shop in process 4242"},
         {"vitrine trace ./server 'request_*' --duration 10s --json",
          "in every process that runs ./server, as NDJSON, for ten seconds"},
         {"vitrine trace --exec -- ./server --port 8080", "all probes, from the first instruction"},
         {"vitrine trace 4242 shop:order --where 'price > 20 && tenant == \"acme\"'",
          "a selection, by the names of arguments and labels"},
         {"vitrine trace 4242 python:function__entry --show 'str(arg0), str(arg1), arg2'",
          "strings behind plain pointers"},
         {"vitrine trace 4242 'shop:*' --count --by tenant", "fires per tenant"},
         {"vitrine trace 'func:libc:malloc' --pid 4242 --where 'arg0 > 4096'",
          "calls of a function with an argument above a limit"},
         {"vitrine trace 4242 --latency func:libc:malloc --by tenant",
          "duration of the calls of a function, by tenant"},
         {"vitrine trace 4242 --latency shop:request_start,shop:request_end --by tenant",
          "latency of requests by tenant; refreshed every second on a terminal"},
         {"vitrine trace 4242 --latency shop:request_start,shop:request_end --match id --slower "
          "10ms",
          "each request that took longer than 10 ms"},
         {"vitrine trace 4242 'shop:*' --count --by container", "fires by container"},
         {"vitrine trace ./server --latency shop:request_start,shop:request_end --by tenant -o "
          "shop.prom",
          "latency of requests by tenant, as metrics for Prometheus"},
         {"vitrine trace 4242 --latency shop:request_start,shop:request_end --by tenant "
          "--exemplars "
          "--export otlp+http://localhost:4318",
          "the same as metrics of OpenTelemetry, with trace IDs"},
         {"vitrine trace 4242 --spans shop:request_start,shop:request_end --match id --export "
          "otlp+http://localhost:4318",
          "each request as a span"},
         {"vitrine trace 4242 shop:order --export otlp+http://localhost:4318",
          "each fire as a log record"}},
        {"probes", "labels", "doctor"}};
  }

  void define(CLI::App& app) override {
    app.add_option("TARGET", words_, "Process IDs or files; then the probes to trace")
        ->option_text("... PROBE...");
    processes_.define(app);
    app.add_option("--module", options_.modules,
                   "Only probes of these files (a path or a name, with wildcards); may be repeated")
        ->allow_extra_args(false)
        ->option_text("FILE");
    query_.define(app);
    app.add_flag("--follow", options_.follow, "Also trace forked processes");
    add_duration(app, time_);
    add_parsed(app, "--interval", interval_, parse_duration,
               "Print the table so far after each interval (1s on a terminal)")
        ->option_text("TIME");
    app.add_option("-o,--output", metrics_path_,
                   "Keep the table in this file, for Prometheus (FILE.prom) or as OpenMetrics, "
                   "with exemplars "
                   "(FILE.openmetrics): written anew after each interval (15s)")
        ->option_text("FILE");
    engine_.define(app, "fires, spans or metrics", "");
    app.add_option("--buffer", buffer_mib_,
                   "Megabytes of the kernel's buffer of fires (16, at most 1024)")
        ->check(CLI::Range(std::size_t{1}, max_buffer_mib))
        ->option_text("MB");
    app.add_option("--limit", limit_, "Stop after this many fires")
        ->check(at_least_one)
        ->option_text("N");
    app.add_flag("--optional", options_.optional,
                 "Print a note, not an error, for a PROBE that matches nothing");
    app.add_flag(
        "--force", options_.force,
        "Also attach where there is no nop, and where this kernel is known to harm the program");
    redact_.define(app, "labels and arguments");
    add_json(app, json_, "fire");
    add_exec(app, exec_, options_.target.command, "trace");
  }

  Needs needs() const override {
    Needs needs = needs_of_bpf();
    // What holds a program before its first instruction.
    if (exec_) needs.calls.allow(sandbox::Calls::tracing);
    if (exec_) needs.working = needs.working | capabilities::ending;
    needs.setting_up = needs.working | capabilities::admin | capabilities::priority;
    needs.launches = exec_;
    if (!metrics_path_.empty()) needs.calls.allow(sandbox::Calls::changing);
    if (engine_.given()) needs.calls.allow(sandbox::Calls::changing).allow(sandbox::Calls::network);
    if (!metrics_path_.empty() && !is_users_own(metrics_path_)) {
      needs.working = needs.working | capabilities::writing;
      needs.setting_up = needs.setting_up | capabilities::writing;
    }
    return needs;
  }

  std::vector<Use> uses() const override {
    return {{"trace FILE", capabilities::bpf, capabilities::bpf,
             "nothing; CAP_SYS_PTRACE adds labels of other users' processes", true},
            {"trace PID", capabilities::bpf, capabilities::bpf | capabilities::ptrace, "nothing",
             true}};
  }

  Result<int> run() override {
    catch_interrupts();
    options_.stop = &interrupted();
    TRY(take_query());
    TRY(take_words());
    TRY(check());
    if (observe::adds_up(options_.query) && (json_ || (metrics_path_.empty() && !engine_.given())))
      view_.emplace(json_, interval_);
    if (engine_.given())
      sender_ = TRY(
          TraceSender::open(TRY(engine_.take(signal_of(options_.query))), engine_.request_bytes()));
    options_.target.command_to_stderr = json_;
    allow_many_files();
    auto trace = observe::Trace::open(options_);
    if (!trace) return interrupted() ? exit_interrupted : report(trace.error());
    // What is launched runs by now, with the priority that it was given.
    take_priority();
    TRY(go_on_confined(needs_of(**trace)));
    int status = watch(**trace);
    (*trace)->end_command();
    print_notes(**trace);
    if (shown_ > 0) names_.report();
    if (shown_ > 0) redact_.report_unmet();
    report_unread_labels(**trace);
    if (options_.query.slower) sum_up(**trace);
    if (observe::adds_up(options_.query)) {
      auto table = TRY((*trace)->reduction());
      if (view_) (void)view_->finish(table);
      TRY(write_metrics(**trace, table));
    }
    if (sender_ && !sender_->finish()) status = exit_of_loss(status);
    // Of a command: what it could have loaded until now.
    if (status == exit_done && !is_over())
      if (const auto missing = (*trace)->unmatched()) return tl::unexpected(*missing);
    return status;
  }

 private:
  Result<void> take_words() {
    if (exec_) {
      options_.probes = words_.empty() ? std::vector<std::string>{"*"} : words_;
      return {};
    }
    options_.target.pids = TRY(processes_.take());
    if (!options_.target.pids.empty()) {
      options_.probes = words_;
      return {};
    }
    const auto is_function = [](const std::string& text) {
      return probe::is_function_pattern(text);
    };
    const auto& latency = options_.query.reduction;
    const bool is_latency = latency && latency->kind == query::ReductionKind::latency;
    if (words_.empty() ? is_latency && is_function(latency->start) : is_function(words_[0])) {
      options_.probes = words_;
      options_.target.files = TRY(observe::files_of_functions(
          is_latency ? std::vector{latency->start, latency->end} : words_));
      return {};
    }
    if (words_.empty())
      return fail(ErrorCode::usage, "nothing to trace",
                  "give a PID or a file, and the probes: vitrine trace 4242 'shop:*'");
    const std::size_t targets = leading_targets(words_);
    for (const ProbeTarget& target : TRY(parse_targets(std::span(words_).first(targets))).targets) {
      if (target.pid != 0)
        options_.target.pids.push_back(target.pid);
      else
        options_.target.files.push_back(target.path);
    }
    options_.probes.assign(words_.begin() + static_cast<std::ptrdiff_t>(targets), words_.end());
    return {};
  }

  Result<void> take_query() {
    options_.query = TRY(query_.take(is_measured(), TRY(redact_.take())));
    options_.stacks = query_.stacks();
    names_ = ShownNames(options_.query.show);
    TRY(engine_.check(false));
    metrics_ = ReductionMetrics(limits::metric_groups, query_.label_values());
    options_.resources = engine_.given() && !adds_up(options_.query);
    if (adds_up(options_.query) && limit_ != 0)
      return fail(ErrorCode::usage, "--limit applies to single fires",
                  "omit it, or omit the aggregation");
    if (interval_ && (!adds_up(options_.query) || interval_->count() == 0))
      return fail(ErrorCode::usage, "--interval requires an aggregation and a time above 0",
                  "add --count, --sum ARG, --hist ARG or --latency START,END");
    if (!metrics_path_.empty()) TRY(check_metrics());
    options_.buffer_bytes = buffer_mib_ << 20;
    options_.backlog_bytes = backlog_bytes();
    return {};
  }

  [[nodiscard]] Result<void> check_metrics() const {
    if (!adds_up(options_.query))
      return fail(ErrorCode::usage, "-o requires an aggregation",
                  "add --count, --sum ARG, --hist ARG or --latency START,END; for single fires "
                  "redirect standard output");
    if (!telemetry::is_text_file(metrics_path_))
      return fail(ErrorCode::usage, fmt::format("unknown format of {}", metrics_path_),
                  "end its name in .prom or .openmetrics");
    return check_writable(metrics_path_, sandbox::StagedFile::Access::usual);
  }

  /// Whether the table goes somewhere as metrics.
  [[nodiscard]] bool is_measured() const { return engine_.given() || !metrics_path_.empty(); }

  /// What concerns options and arguments.
  [[nodiscard]] Result<void> check() const {
    if (options_.query.slower && !options_.probes.empty() && !words_.empty())
      return fail(ErrorCode::usage,
                  fmt::format("unexpected argument {}: the probes of a pair are those of --latency",
                              options_.probes.front()),
                  "omit it");
    return {};
  }

  static void report_unread_labels(const observe::Trace& trace) {
    if (const std::uint64_t fires = trace.counters().unread_labels; fires > 0)
      note(fmt::format(
          "{} rejected by --where, which may hold for {}: some of the labels could not be read",
          counted(fires, "fire"), fires == 1 ? "it" : "them"));
  }

  /// Whether there were pairs at all, and what could not be paired.
  void sum_up(const observe::Trace& trace) const {
    const observe::TraceCounters counters = trace.counters();
    const auto print_count = [](std::uint64_t number, std::string_view one, std::string_view more) {
      if (number > 0) note(fmt::format("{} {}", counted(number, one), more));
    };
    if (!query_.is_spans())
      print_error("vitrine: {} of {} pairs shown: longer than {}\n", shown_, counters.pairs,
                  whole_units(query_.slower().value_or(std::chrono::nanoseconds(0))));
    else
      print_error("vitrine: {}\n", counted(shown_, "pair"));
    print_count(counters.without_start, "end",
                "without a start (it came earlier, or without --match on another thread)");
    print_count(counters.without_end, "start",
                "without an end: another start followed, or too many were pending");
    print_count(counters.unread, "fire", fmt::format("not paired: {}", unread_match));
  }

  /// Now that it is known how this kernel makes uprobes.
  Needs needs_of(const observe::Trace& trace) const {
    Needs needs = this->needs();
    if (trace.attaching() == bpf::Attaching::perf_event)
      needs.working = needs.working | capabilities::admin;
    return needs;
  }

  int watch(observe::Trace& trace) {
    if (time_) end_ = Clock::now() + *time_;  // attaching has taken its own time
    print_notes(trace);
    announce(trace);
    TraceText text(Style::of_stdout());
    TraceJson json;
    const auto sink = [&](const observe::TraceEvent& event) {
      if (is_over()) return;
      ++shown_;
      names_.look_at(event);
      look_at_redaction(event);
      if (sender_) sender_->add(event);
      if (sender_ && !json_) return;
      if (json_)
        json.append(event, output_.text());
      else
        text.append(event, output_.text());
      if (output_.is_full()) flush();
    };
    // What has fired by the end still waits in the buffer, and is shown.
    std::optional<int> ending;
    for (;;) {
      const bool ended = trace.ended();
      const auto polled = take(trace, ending ? milliseconds(0) : time_left(), sink);
      if (!polled) return report(polled.error());
      if (sender_) sender_->take_out();
      print_notes(trace);
      if (!report_losses(trace) || !refresh(trace)) return exit_done;
      if (is_over()) return !reader_there_ && interrupted() ? exit_interrupted : exit_done;
      if (ending && *polled == 0) return *ending;
      if (ending) continue;
      if (interrupted())
        ending = exit_interrupted;
      else if (ended || (end_ && Clock::now() >= *end_))
        ending = exit_done;
      if (ending) trace.detach();
    }
  }

  void look_at_redaction(const observe::TraceEvent& event) {
    if (!options_.query.redaction.any()) return;
    for (const format::Label& label : event.labels->labels) redact_.look_at_label(label.key);
    for (std::size_t i = 0; i < event.arguments.size(); ++i)
      redact_.look_at_argument(i, event.arguments[i].name);
    if (!event.labels->trace) return;
    redact_.look_at_label("trace_id");
    redact_.look_at_label("span_id");
  }

  /// Shows what comes in this time, all of one batch in one write. Returns how much came.
  Result<std::size_t> take(observe::Trace& trace, milliseconds time,
                           const observe::Trace::Sink& sink) {
    const auto end = Clock::now() + time;
    std::size_t taken = 0;
    do {
      const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
      auto polled = trace.poll(std::max(left, milliseconds(0)), sink);
      flush();
      if (!polled) return polled;
      taken += *polled;
    } while (!is_over() && !interrupted() && Clock::now() < end);
    return taken;
  }

  /// The table so far, when it is time. False when the output has no reader.
  bool refresh(observe::Trace& trace) {
    const bool is_shown = view_ && view_->is_due();
    const bool is_written =
        adds_up(options_.query) && is_measured() && Clock::now() >= next_metrics_;
    if (!is_shown && !is_written) return true;
    const auto table = trace.reduction();
    if (!table) return true;
    if (is_written) {
      // A full disk may have space later.
      const auto written = write_metrics(trace, *table);
      const std::string problem = written ? std::string() : written.error().message;
      if (problem != metrics_problem_ && !written) note(problem);
      metrics_problem_ = problem;
      next_metrics_ = Clock::now() + interval_.value_or(metrics_interval);
    }
    return !is_shown || view_->refresh(*table);
  }

  Result<void> write_metrics(observe::Trace& trace, const query::ReductionTable& table) {
    if (!is_measured()) return {};
    const std::int64_t wall_clock_ns = sender_              ? sender_->wall_clock_ns()
                                       : query_.exemplars() ? wall_clock_offset_ns()
                                                            : 0;
    const auto metrics = metrics_.of(table, wall_clock_ns);
    if (sender_) sender_->send(metrics, trace.resource());
    if (metrics_path_.empty()) return {};
    TRY(sandbox::write_whole(metrics_path_, telemetry::text_of_file(metrics_path_, metrics)));
    return {};
  }

  void flush() { reader_there_ = output_.flush() && reader_there_; }

  /// Nothing more is wanted, or the output has no reader.
  bool is_over() const { return !reader_there_ || (limit_ != 0 && shown_ >= limit_); }

  milliseconds time_left() const {
    if (!end_) return longest_wait;
    const auto left = std::chrono::ceil<milliseconds>(*end_ - Clock::now());
    return std::clamp(left, milliseconds(0), longest_wait);
  }

  void announce(const observe::Trace& trace) const {
    const std::size_t probes = trace.probes().size();
    if (probes == 0) return;  // notes name what it waits for, or why there is none
    print_error("vitrine: tracing {} at {}\n", counted(probes, "probe"),
                counted(trace.sites(), "site"));
  }

  void print_notes(observe::Trace& trace) {
    print_texts(trace.take_notes());
    if (sender_) sender_->print_notes();
  }

  void print_texts(const std::vector<std::string>& texts) {
    if (!texts.empty() && view_) view_->leave_as_is();
    for (const std::string& text : texts) note(text);
  }

  /// False when the output has no reader.
  bool report_losses(const observe::Trace& trace) {
    const std::uint64_t lost = trace.counters().lost;
    const std::uint64_t more = lost - std::exchange(lost_, lost);
    if (more == 0) return true;
    // Those beside the buffer were under way at once, on more threads than there is memory for.
    const std::string text = fmt::format(
        "{} fires were lost: {}", more,
        trace.counters().busy >= lost
            ? "too many threads fired at once"
            : fmt::format("the kernel's buffer of {} MB was full ({})", std::bit_ceil(buffer_mib_),
                          buffer_mib_ < max_buffer_mib ? "--buffer enlarges it" : "its largest"));
    if (!json_) print_texts({text});
    if (json_ && lost_ == more) note(text);  // the first time
    return !json_ || print_json({{"lost", more}});
  }

  std::vector<std::string> words_;
  TraceQueryOptions query_;
  EngineOptions engine_;
  std::unique_ptr<TraceSender> sender_;
  std::optional<milliseconds> interval_;
  std::size_t buffer_mib_ = 16;
  std::size_t limit_ = 0;
  bool json_ = false;
  bool exec_ = false;
  ProcessOptions processes_;
  RedactOptions redact_;
  std::optional<ReductionView> view_;
  std::string metrics_path_;
  ReductionMetrics metrics_{limits::metric_groups};
  std::string metrics_problem_;     ///< why the file could not be written, as the last note has it
  Clock::time_point next_metrics_;  ///< the first file is there when tracing begins
  StandardOutput& output_ = StandardOutput::instance();  ///< of single fires
  bool reader_there_ = true;
  observe::TraceOptions options_;
  std::optional<milliseconds> time_;
  std::optional<Clock::time_point> end_;
  ShownNames names_;
  std::size_t shown_ = 0;
  std::uint64_t lost_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_trace_command() {
  return std::make_unique<TraceCommand>();
}

}  // namespace vitrine::cli
