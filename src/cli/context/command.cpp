// vitrine context: the process context of a process.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "cli/output/json.hpp"
#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "cli/shell/options.hpp"
#include "cli/shell/report.hpp"
#include "cli/shell/run.hpp"
#include "format/redact.hpp"
#include "observe/process/facts.hpp"

namespace vitrine::cli {
namespace {

/// A value on one line: text as it is, the rest as JSON would write it.
std::string describe(const format::AnyValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.data)) return delimited(*text);
  if (const auto* blob = std::get_if<format::Blob>(&value.data))
    return fmt::format("{} bytes", blob->bytes.size());
  return printable(json_text(json_value(value)));
}

std::string describe(const std::string& heading, const format::KeyValueList& list,
                     const Style& style) {
  if (list.empty()) return {};
  Table table;
  for (const format::KeyValue& item : list)
    table.row({style.cyan(printable(item.key)), describe(item.value)});
  return style.bold(heading) + '\n' + table.str(2);
}

std::string describe(const observe::ContextState& state, const Style& style) {
  const format::ProcessContext& context = state.context;
  std::string out =
      style.dim(fmt::format("version {}, published at {} ns, mapping {} at {}\n", context.version,
                            context.published_at_ns, printable(state.mapping), hex(state.header)));
  out += describe("resource", context.resource, style);
  out += describe("attributes", context.attributes, style);
  for (const format::Truncation& cut : context.truncated)
    out += style.yellow(fmt::format("cut: {}: {}\n", cut.what, printable(cut.detail)));
  for (const std::string& defect : context.defects)
    out += style.yellow(fmt::format("publisher's fault: {}\n", printable(defect)));
  return out;
}

Error nothing_published(int pid) {
  return {ErrorCode::failed, fmt::format("process {} publishes no process context", pid),
          "vitrine looked for a mapping named OTEL_CTX ([anon_shmem:OTEL_CTX], [anon:OTEL_CTX], "
          "/memfd:OTEL_CTX); likely causes: no library in the process publishes a context, the "
          "process has not published it yet, or it is a forked child that has not published again"};
}

class ContextCommand : public Command {
 public:
  Manual manual() const override {
    return {"context",
            "read the process context of a process",
            {"Shows the resource attributes (such as service.name) and the extra attributes that a "
             "process has published as its process context (OTEP-4719 of OpenTelemetry). Stops no "
             "thread and needs no "
             "cooperation from the process.",
             "With --watch, prints each update."},
            {{"vitrine context 4242", "the context of process 4242"},
             {"vitrine context 4242 --json", "the same as one JSON object"},
             {"vitrine context 4242 --watch=1s --json", "one JSON object for each update"}},
            {"ps", "labels"}};
  }

  void define(CLI::App& app) override {
    app.add_option("PID", pid_, "Process ID")->check(process_id)->option_text(" ");
    processes_.define(app);
    add_watch(app, interval_, "Read again", " and show each update");
    add_duration(app, duration_);
    redact_.define(app, "attributes");
    add_json(app, json_, "context");
  }

  Needs needs() const override { return needs_of_reading(); }

  std::vector<Use> uses() const override {
    return {{"context PID", {}, capabilities::ptrace, "your own processes can be read"}};
  }

  Result<int> run() override {
    if (duration_ && !interval_) interval_ = TRY(parse_interval(usual_interval));
    pid_ = TRY(processes_.take_one(pid_));
    if (pid_ == 0)
      return fail(ErrorCode::usage, "context: PID is required",
                  "`vitrine context --help` lists the arguments");
    redaction_ = TRY(redact_.take());
    catch_interrupts();
    if (duration_) stop_after(*duration_ + last_reading);
    auto reader = TRY(observe::ContextReader::open(pid_));
    reader->stop_by(&stopped());
    return interval_ ? watch(std::move(reader), *interval_, duration_) : once(*reader);
  }

 private:
  Result<int> once(observe::ContextReader& reader) {
    const auto state = TRY(reader.refresh());
    if (state == nullptr) return tl::unexpected(nothing_published(pid_));
    show(*state);
    return exit_done;
  }

  int watch(std::unique_ptr<observe::ContextReader> reader, std::chrono::milliseconds interval,
            std::optional<std::chrono::milliseconds> duration) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    std::optional<format::ProcessContext> last;
    bool seen = false, is_update_noted = false;
    for (auto next = start;;) {
      auto state = reader->refresh();
      if (interrupted()) return exit_interrupted;
      if (!state && is_end_of_duration(state.error())) return exit_done;
      const ErrorCode problem = state ? ErrorCode::failed : state.error().code;
      const bool again = problem == ErrorCode::another_program || problem == ErrorCode::changing;
      if (problem == ErrorCode::another_program) {  // this reader never reads that one
        if (auto anew = observe::ContextReader::open(pid_)) {
          reader = std::move(*anew);
          reader->stop_by(&stopped());
        }
      }
      // It may be one that never ends.
      if (problem == ErrorCode::changing && !std::exchange(is_update_noted, true))
        note(state.error().message + "; still watching");
      if (!state && !again) {
        if (!seen || state.error().code != ErrorCode::not_found) return report(state.error());
        note(state.error().message);
        return exit_done;
      }
      if (!again && *state != nullptr && last != (*state)->context) {
        last = (*state)->context;
        seen = true;
        if (!show(**state)) return exit_done;
      }
      // A reading may take longer than the interval: then the next one is due now.
      next = std::max(next + interval, Clock::now());
      if (duration && next - start >= *duration) return exit_done;
      sleep_until(next);
      if (interrupted()) return exit_interrupted;
    }
  }

  bool show(observe::ContextState state) const {
    state.context = format::redacted(std::move(state.context), redaction_);
    for (const std::string& text : state.notes) note(text);
    if (!state.stale.empty()) note("showing the last good reading: " + state.stale);
    if (json_) return print_json(to_json(pid_, state));
    const std::string text = describe(state, Style::of_stdout());
    return write_output(text) && flush_output();
  }

  int pid_ = 0;
  std::optional<std::chrono::milliseconds> interval_;
  std::optional<std::chrono::milliseconds> duration_;  ///< nothing: until ^C
  ProcessOptions processes_;
  RedactOptions redact_;
  Redaction redaction_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_context_command() {
  return std::make_unique<ContextCommand>();
}

}  // namespace vitrine::cli
