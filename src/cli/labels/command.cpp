// vitrine labels: the label sets of a process's threads, once or again and again.

#include "cli/labels/command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/limits.hpp"
#include "base/text.hpp"
#include "cli/output/evidence.hpp"
#include "cli/output/json.hpp"
#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "cli/shell/confinement.hpp"
#include "cli/shell/options.hpp"
#include "cli/shell/report.hpp"
#include "cli/shell/run.hpp"
#include "observe/labels/labels.hpp"
#include "observe/process/launch.hpp"

namespace vitrine::cli {
namespace {

using observe::Evidence;
using observe::ThreadLabels;
using Definition = std::pair<format::Format, std::string>;

Definition definition_of(const ThreadLabels& thread) {
  return {thread.format, thread.module};
}

/// The content of a reading, independent of its format: ids that a format can only publish
/// as labels are the trace.
struct Content {
  std::vector<std::pair<std::string, std::string>> labels;
  std::string trace;  ///< "trace id/span id" in hex, or empty
  std::string error;
  std::vector<std::string> remarks;

  auto operator<=>(const Content&) const = default;
};

Content content_of(const ThreadLabels& thread) {
  Content content;
  if (!thread.set) {
    content.error = thread.set.error().message;
    return content;
  }
  const format::LabelSet& set = *thread.set;
  std::string trace_id;
  std::string span_id;
  if (set.trace) {
    trace_id = hex_text(set.trace->trace_id);
    span_id = hex_text(set.trace->span_id);
  }
  for (const format::Label& label : set.labels) {
    if (!set.trace && label.key == "trace_id" && label.value.size() == 32)
      trace_id = label.value;
    else if (!set.trace && label.key == "span_id" && label.value.size() == 16)
      span_id = label.value;
    else
      content.labels.emplace_back(label.key, label.value);
  }
  if (!trace_id.empty() || !span_id.empty()) content.trace = trace_id + "/" + span_id;
  for (const format::Truncation& cut : set.truncated)
    content.remarks.push_back(fmt::format("{} cut: {}", cut.what, cut.detail));
  for (const std::string& defect : format::texts(set.defects, set.defects_left_out))
    content.remarks.push_back("publisher's fault: " + defect);
  return content;
}

/// Order means nothing in a set: it is kept for the eye, and left out of comparisons.
Content unordered(Content content) {
  std::sort(content.labels.begin(), content.labels.end());
  return content;
}

bool is_quiet(const Content& content) {
  return content == Content{};
}

std::string describe(const Content& content, const Style& style) {
  if (!content.error.empty()) return style.red("not read: " + printable(content.error));
  std::string out;
  const auto add = [&](const std::string& item) { out += (out.empty() ? "" : " ") + item; };
  for (const auto& [key, value] : content.labels)
    add(style.cyan(delimited(key)) + "=" + delimited(value));
  if (!content.trace.empty()) add(style.dim("trace=" + printable(content.trace)));
  for (const std::string& remark : content.remarks)
    add(style.yellow("(" + printable(remark) + ")"));
  return out;
}

std::string describe(Evidence evidence, const Style& style) {
  const std::string text(observe::name(evidence));
  return evidence == Evidence::unproven ? style.yellow(text) : style.green(text);
}

/// Equal readings of one thread.
struct Line {
  Content content;  ///< in the order of the first of them
  std::string comm;
  Evidence evidence = Evidence::proven;  ///< the weakest of them
  bool has_evidence = true;              ///< all of them
  std::vector<Definition> definitions;
};

std::string names(const std::vector<Definition>& definitions) {
  std::vector<std::string_view> formats;
  formats.reserve(definitions.size());
  for (const Definition& definition : definitions)
    formats.push_back(format::name(definition.first));
  return fmt::format("{}", fmt::join(formats, ", "));
}

/// The same among `readings` of one thread: with the module, where several publish in the format.
std::string names_among(const std::vector<Definition>& definitions,
                        std::span<const ThreadLabels* const> readings) {
  std::vector<std::string> all;
  for (const Definition& definition : definitions) {
    std::string name(format::name(definition.first));
    if (std::ranges::count_if(readings, [&](const ThreadLabels* thread) {
          return thread->format == definition.first;
        }) > 1)
      name += " of " + printable(definition.second);
    all.push_back(std::move(name));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

/// "custom-labels-v1, otel-thread-ctx-v1 from /path": one line a module.
std::string headings(const std::vector<Definition>& definitions, const Style& style) {
  std::map<std::string, std::vector<Definition>> modules;
  for (const Definition& definition : definitions) modules[definition.second].push_back(definition);
  std::string out;
  for (const auto& [module, its] : modules)
    out += fmt::format("{} {}\n", style.bold(names(its)), style.dim("from " + printable(module)));
  return out;
}

/// Lines of one thread, by their content.
using Lines = std::map<Content, Line>;

Lines lines_of(std::span<const ThreadLabels* const> readings) {
  Lines lines;
  for (const ThreadLabels* thread : readings) {
    Content content = content_of(*thread);
    Line& line = lines[unordered(content)];
    if (line.definitions.empty()) line.content = std::move(content);
    line.comm = thread->comm;
    line.evidence = std::max(line.evidence, thread->evidence);
    line.has_evidence &= has_evidence(*thread);
    line.definitions.push_back(definition_of(*thread));
  }
  return lines;
}

/// The table of one snapshot. It is gone through twice, the first time for the widths of columns:
/// the labels of all threads in text would take several times the memory that they do.
class LabelsTable {
 public:
  LabelsTable(const observe::Snapshot& snapshot, bool every_thread, const Style& style)
      : every_thread_(every_thread), style_(style) {
    for (const ThreadLabels& thread : snapshot.threads) threads_[thread.tid].push_back(&thread);
    columns_.fit(head());
    for (const auto& [tid, readings] : threads_) {
      const bool listed = for_rows(tid, readings, [&](std::vector<std::string> cells, auto&&...) {
                            cells.emplace_back();
                            columns_.fit(cells);
                            return true;
                          }).listed;
      quiet_ += listed ? 0 : 1;
    }
  }

  [[nodiscard]] std::size_t threads() const { return threads_.size(); }
  [[nodiscard]] std::size_t quiet() const { return quiet_; }

  bool print(const TextSink& out) const {
    if (!out(columns_.line(head(), 2))) return false;
    const auto print_row = [&](std::vector<std::string> cells, const Line& line,
                               std::span<const ThreadLabels* const> readings, bool differs) {
      cells.push_back(describe(line.content, style_));
      if (differs)
        cells.back() +=
            (cells.back().empty() ? "" : " ") +
            style_.dim(fmt::format("({} only)", names_among(line.definitions, readings)));
      return out(columns_.line(cells, 2));
    };
    return std::all_of(threads_.begin(), threads_.end(), [&](const auto& thread) {
      return for_rows(thread.first, thread.second, print_row).went_on;
    });
  }

 private:
  using Readings = std::vector<const ThreadLabels*>;

  struct Outcome {
    bool listed = false;
    bool went_on = true;
  };

  [[nodiscard]] std::vector<std::string> head() const {
    return {style_.dim("TID"), style_.dim("THREAD"), style_.dim("EVIDENCE"), style_.dim("LABELS")};
  }

  /// Calls `row(cells but the last, line, the thread's readings, whether it has several lines)`.
  template <class Row>
  Outcome for_rows(int tid, const Readings& readings, const Row& row) const {
    const Lines lines = lines_of(readings);
    if (lines.size() == 1 && is_quiet(lines.begin()->first) && !every_thread_) return {};
    for (const auto& [key, line] : lines) {
      if (lines.size() > 1 && is_quiet(line.content) && !every_thread_) continue;
      const std::string evidence = line.has_evidence ? describe(line.evidence, style_) : "-";
      if (!row({std::to_string(tid), printable(line.comm), evidence}, line,
               std::span<const ThreadLabels* const>(readings), lines.size() > 1))
        return {true, false};
    }
    return {true, true};
  }

  bool every_thread_;
  const Style& style_;
  std::map<int, Readings> threads_;
  Columns columns_;
  std::size_t quiet_ = 0;
};

}  // namespace

bool print_labels(const observe::Snapshot& snapshot, bool every_thread, const Style& style,
                  const TextSink& out) {
  if (snapshot.threads.empty()) return out(style.dim("no thread was seen\n"));
  std::vector<Definition> definitions;
  for (const ThreadLabels& thread : snapshot.threads) {
    const Definition definition = definition_of(thread);
    if (std::find(definitions.begin(), definitions.end(), definition) == definitions.end())
      definitions.push_back(definition);
  }
  const LabelsTable table(snapshot, every_thread, style);
  if (!out(headings(definitions, style))) return false;
  if (table.quiet() < table.threads() && !table.print(out)) return false;
  if (table.quiet() == 0) return true;
  return out(style.dim(fmt::format("  {} without labels\n", counted(table.quiet(), "thread"))));
}

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds default_sampling_time{1000};  // ebpf mode sees threads that run within it
constexpr milliseconds shortest_wait{1};             // for a program that is being executed

class LabelsCommand : public Command {
 public:
  Manual manual() const override {
    return {
        "labels",
        "read the label sets of the threads of a process",
        {"A label is a key and a value (tenant=acme) that a program attaches to the work of a "
         "thread. "
         "This command shows the labels that each thread has in force, in every format that the "
         "process publishes. Needs no cooperation from the process.",
         "Each line shows the evidence for its labels. proven: the thread did not run during the "
         "reading. serial: the writer's serial number was the same before and after. stopped: the "
         "thread was stopped. sampled: read in an interrupt of the thread itself. unproven: the "
         "best of several readings of a thread that kept running; it may mix two sets.",
         "Mode snapshot stops no thread and sees all threads. Mode ebpf stops no thread and sees "
         "the threads that run on a CPU while it samples. Mode ptrace stops each thread for some "
         "microseconds; a system call of the target may then end with EINTR.",
         "With --json, what a command of --exec writes to standard output goes to standard error."},
        {{"vitrine labels 4242", "the labels of all threads of process 4242, now"},
         {"vitrine labels 4242 --watch=500ms --duration 10s", "twice a second, for ten seconds"},
         {"vitrine labels 4242 --mode ebpf --duration 5s --json",
          "the labels of every thread seen on a CPU within five seconds, as NDJSON"},
         {"vitrine labels --watch --exec -- ./server --port 8080",
          "start a program, read it every second, and end when it ends"}},
        {"ps", "context", "doctor"}};
  }

  void define(CLI::App& app) override {
    app.add_option("PID", pid_, "Process ID")->check(process_id)->option_text(" ");
    processes_.define(app);
    app.add_option("TID", options_.tids, "Read only these threads")
        ->check(process_id)
        ->option_text("...");
    add_choice(
        app, "--mode", options_.mode,
        std::vector<std::pair<const char*, observe::Mode>>{{"snapshot", observe::Mode::snapshot},
                                                           {"ebpf", observe::Mode::ebpf},
                                                           {"ptrace", observe::Mode::ptrace}},
        "Reading mode (snapshot)");
    add_watch(app, interval_, "Read again", ": --watch=250ms");
    add_duration(app, duration_);
    app.add_option("-F,--freq", options_.sample_hz, "Samples per second and CPU in ebpf mode (99)")
        ->check(CLI::Range(1U, limits::sampling_frequency))
        ->option_text("HZ");
    app.add_flag("--may-stop", options_.may_stop,
                 "Let snapshot stop a thread briefly if it cannot be proven otherwise");
    app.add_flag("--all", every_thread_, "Also list threads without labels (--json always does)");
    app.add_option("--max-labels", options_.limits.labels_per_set,
                   "Maximum number of labels of one set (256, at most 4096)")
        ->check(CLI::Range(std::size_t{1}, limits::hard_label_limits.labels_per_set))
        ->option_text("N");
    app.add_option("--max-value", options_.limits.value_bytes,
                   "Maximum number of bytes of one value (16384, at most 1048576)")
        ->check(CLI::Range(std::size_t{1}, limits::hard_label_limits.value_bytes))
        ->option_text("BYTES");
    redact_.define(app, "labels");
    add_json(app, json_, "thread and format");
    add_exec(app, exec_, command_, "read");
  }

  Needs needs() const override {
    Needs needs = needs_of_bpf();
    if (options_.mode == observe::Mode::ebpf)  // opens perf events for each reading
      needs.working = needs.working | sandbox::added_for_perf_events();
    needs.setting_up = needs.working;
    if (options_.mode == observe::Mode::ptrace || options_.may_stop)
      needs.calls.allow(sandbox::Calls::tracing);
    needs.launches = exec_;
    if (exec_) needs.working = needs.working | capabilities::ending;
    return needs;
  }

  std::vector<Use> uses() const override {
    return {
        {"labels PID",
         {},
         capabilities::ptrace,
         "your own processes can be read; CAP_BPF and CAP_PERFMON prove more readings, faster"},
        {"labels PID --mode ptrace", {}, capabilities::ptrace, "your own processes can be read"},
        {"labels PID --mode ebpf", capabilities::bpf, capabilities::bpf | capabilities::ptrace,
         "the other modes", false, true}};
  }

  Result<int> run() override {
    TRY(take_times());
    redaction_ = TRY(redact_.take());
    pid_ = TRY(processes_.take_one(pid_));
    if (exec_ && pid_ != 0)
      return fail(ErrorCode::usage, "a PID and --exec exclude each other", "omit one of them");
    options_.stop = &stopped();
    catch_interrupts();
    std::optional<observe::Launched> launched;
    if (exec_) {
      launched = TRY(observe::Launched::start(command_, json_));
      pid_ = launched->pid();
      TRY(go_on_confined(needs()));
    } else if (pid_ == 0) {
      return fail(ErrorCode::usage, "missing argument: no process",
                  "give a PID (vitrine ps lists the publishing processes), or --exec -- COMMAND");
    }
    const int status = watch(launched ? &*launched : nullptr);
    if (launched)
      if (const std::string text = launched->end(); !text.empty()) note(text);
    return status;
  }

 private:
  Result<void> take_times() {
    if (duration_) {
      end_ = Clock::now() + *duration_;
      stop_after(*duration_ + last_reading);
      // A duration asks for more than one reading; sampling has a window anyway.
      if (options_.mode == observe::Mode::ebpf && !interval_) window_ = *duration_;
      if (options_.mode != observe::Mode::ebpf && !interval_) interval_ = milliseconds(1000);
    }
    if (interval_) window_ = *interval_;
    return {};
  }

  bool repeats() const { return interval_.has_value(); }

  /// Whether what failed may have failed because the launched program has ended: missing rights are an error
  /// of a short program too.
  static bool is_of_end(const Error& error, observe::Launched* launched) {
    return launched != nullptr &&
           (error.code == ErrorCode::not_found || error.code == ErrorCode::failed) &&
           launched->ended();
  }

  /// While watching, a process that is just executing a program is opened when it has.
  Result<std::unique_ptr<observe::LabelReader>> open_reader() const {
    for (;;) {
      auto reader = observe::LabelReader::open(pid_, options_);
      const bool wait = !reader && reader.error().code == ErrorCode::another_program && repeats();
      const auto next = Clock::now() + std::max(interval_.value_or(milliseconds(0)), shortest_wait);
      if (!wait || interrupted() || (end_ && next >= *end_)) return reader;
      sleep_until(next);
    }
  }

  /// Whether another reading may succeed: the program may publish later (a library loaded, a first label set), or
  /// goes on from one program to the next.
  static bool may_come(const Error& error) {
    return error.code == ErrorCode::failed || error.code == ErrorCode::changing ||
           error.code == ErrorCode::another_program;
  }

  int watch(observe::Launched* launched) {
    auto reader = open_reader();
    bool shown = false;
    if (!reader) {
      if (is_end_of_duration(reader.error())) return exit_done;
      return is_of_end(reader.error(), launched) ? after_the_program(shown)
                                                 : report(reader.error());
    }
    for (auto next = Clock::now();;) {
      if (interval_) next += *interval_;
      auto snapshot = (*reader)->read(window_);
      if (!snapshot) {
        const bool ended = snapshot.error().code == ErrorCode::not_found;
        if (interrupted()) return exit_interrupted;
        if (is_end_of_duration(snapshot.error())) return exit_done;
        if (is_of_end(snapshot.error(), launched)) return after_the_program(shown);
        if (ended && shown && repeats()) {
          note(fmt::format("process {} has ended", pid_));
          return exit_done;
        }
        if (!repeats() || !may_come(snapshot.error())) return report(snapshot.error());
        if (reported_.insert(snapshot.error().message).second)
          note(snapshot.error().message + "; still watching");
      } else {
        shown = true;
        if (const auto error = absent_threads(*snapshot)) {
          if (snapshot->threads.empty() && !repeats()) return report(*error);
          if (reported_.insert(error->message).second) note(error->message);
        }
        if (!show(observe::redacted(std::move(*snapshot), redaction_))) return exit_done;
      }
      if (interrupted()) return exit_interrupted;
      // A reading may take longer than the interval: then the next one is due now.
      next = std::max(next, Clock::now());
      if (!repeats() || (end_ && next >= *end_)) return exit_done;
      sleep_until(next);
      if (interrupted()) return exit_interrupted;
    }
  }

  /// The program that vitrine started has ended: so has the watch. A single reading has failed.
  int after_the_program(bool shown) const {
    if (shown) return exit_done;
    const std::string message = command_.front() + " ended before its labels were read";
    if (!repeats())
      return report({ErrorCode::not_found, message, "--watch reads it again until it ends"});
    note(message);
    return exit_done;
  }

  /// Of the threads that were asked for. Samples have those alone that ran.
  std::optional<Error> absent_threads(const observe::Snapshot& snapshot) const {
    std::vector<int> absent;
    if (options_.mode != observe::Mode::ebpf)
      std::ranges::copy_if(options_.tids, std::back_inserter(absent), [&](int tid) {
        return std::ranges::none_of(snapshot.threads,
                                    [&](const auto& thread) { return thread.tid == tid; });
      });
    if (absent.empty()) return std::nullopt;
    return Error{ErrorCode::not_found,
                 fmt::format("process {} has no thread {}", pid_, fmt::join(absent, ", ")),
                 fmt::format("`vitrine labels {}` lists its threads", pid_)};
  }

  bool show(const observe::Snapshot& snapshot) {
    for (const std::string& text : snapshot.notes)
      if (reported_.insert(text).second) note(text);
    if (json_) {
      for (const observe::ThreadLabels& thread : snapshot.threads)
        if (!print_json(to_json(thread))) return false;
      return true;
    }
    const Style style = Style::of_stdout();
    const auto write = [](std::string_view text) { return write_output(text); };
    if (repeats() && !write(time_of_day() + "  ")) return false;
    return print_labels(snapshot, every_thread_, style, write) && (!repeats() || write("\n")) &&
           flush_output();
  }

  static std::string time_of_day() {
    const auto now = std::chrono::system_clock::now();
    const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    std::tm local{};
    localtime_r(&seconds, &local);
    const auto ms = std::chrono::duration_cast<milliseconds>(now.time_since_epoch()).count() % 1000;
    return fmt::format("{:02}:{:02}:{:02}.{:03}", local.tm_hour, local.tm_min, local.tm_sec, ms);
  }

  int pid_ = 0;
  observe::LabelOptions options_;
  ProcessOptions processes_;
  RedactOptions redact_;
  Redaction redaction_;
  std::optional<milliseconds> duration_;
  bool every_thread_ = false;
  bool json_ = false;
  bool exec_ = false;
  std::vector<std::string> command_;

  std::optional<milliseconds> interval_;
  std::optional<Clock::time_point> end_;
  milliseconds window_ = default_sampling_time;
  std::set<std::string> reported_;
};

}  // namespace

std::unique_ptr<Command> make_labels_command() {
  return std::make_unique<LabelsCommand>();
}

}  // namespace vitrine::cli
