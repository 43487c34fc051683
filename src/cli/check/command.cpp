// vitrine check: does it publish correctly?
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "check/check.hpp"
#include "check/rule.hpp"
#include "cli/check/output.hpp"
#include "cli/output/live.hpp"
#include "cli/shell/options.hpp"
#include "cli/shell/report.hpp"
#include "cli/shell/run.hpp"

namespace vitrine::cli {
namespace {

class CheckCommand : public Command {
 public:
  Manual manual() const override {
    return {"check",
            "check that files and processes publish what readers need",
            {"Checks each file, or all files that a process has loaded and the labels and process "
             "context that it publishes while vitrine observes it, against the rules of the "
             "published formats: custom labels version 0 and 1, the OpenTelemetry thread context "
             "(OTEP-4947) and process context (OTEP-4719), and static probes of SystemTap (sdt) "
             "and DTrace (dof). Stops no thread and changes nothing.",
             "A rule that a specification requires fails the check: the exit code is then 1. A "
             "rule that no specification requires, but a known reader does, is advice; --strict "
             "turns advice into failures. Each failed rule reports what was found, the remedy, and "
             "the readers affected.",
             "Without --profile, every format is checked that is published or that was probably "
             "intended: for example a slot that is not exported, or probes whose notes have been "
             "stripped. With --profile, the named format is checked even if there is no trace of "
             "it. Finding nothing to check is a failure."},
            {{"vitrine check ./libcustomlabels.so", "the rules that the file breaks"},
             {"vitrine check --profile sdt /usr/bin/stap", "its probes only"},
             {"vitrine check 4242 --duration 10s",
              "a process: its files, and its labels over ten seconds"},
             {"vitrine check --sarif build/*.so > check.sarif", "for a CI system"},
             {"vitrine check --list", "every rule"}},
            {"probes", "labels", "context", "doctor"}};
  }

  void define(CLI::App& app) override {
    app.add_option("TARGET", words_, "Files and process IDs")->option_text("...");
    processes_.define(app);
    app.add_option("--profile", profiles_,
                   "Formats to check, separated by commas (the published ones)")
        ->delimiter(',')
        ->allow_extra_args(false)  // what follows is a target
        ->option_text(fmt::format("{}|all", fmt::join(check::every_profile.names(), "|")));
    add_duration(app, duration_, "Time to observe a process (2s)");
    app.add_flag("--strict", strict_, "Treat advice as failures");
    app.add_flag("--verbose", verbose_, "Also show rules that hold and rules that do not apply");
    redact_.define(app, "labels and attributes");
    add_json(app, json_, "rule and subject");
    app.add_flag("--sarif", sarif_, "Print one SARIF 2.1.0 log");
    app.add_flag("--list", list_, "List all rules and check nothing");
    app.add_flag("--markdown", markdown_, "With --list: print a table for documents")->group("");
  }

  Needs needs() const override { return needs_of_bpf(); }

  std::vector<Use> uses() const override {
    return {{"check FILE", {}, {}, ""},
            {"check PID",
             {},
             capabilities::ptrace,
             "your own processes can be checked; CAP_BPF and CAP_PERFMON prove more readings"}};
  }

  Result<int> run() override {
    if (list_) return list();
    if (json_ && sarif_) return fail(ErrorCode::usage, "--json and --sarif exclude each other");
    const auto pids = TRY(processes_.take());
    for (const pid_t pid : pids) words_.push_back(std::to_string(pid));
    if (words_.empty())
      return fail(ErrorCode::usage, "missing argument: no process or file",
                  "give one, for example: vitrine check ./libcustomlabels.so");
    auto options = TRY(options_given());
    auto targets = TRY(parse_targets(words_));
    if (!targets.patterns.empty())
      return fail(ErrorCode::usage, "unexpected argument: check takes no probe patterns",
                  "give files and process IDs");
    catch_interrupts();
    for (const ProbeTarget& target : targets.targets)
      if (!interrupted() && !check(target, options)) return exit_done;  // the output has no reader
    return finish();
  }

 private:
  int list() {
    if (json_) {
      for (const check::Requirement* rule : check::all_requirements())
        if (!print_json(to_json(*rule))) break;
      return exit_done;
    }
    const std::string text = markdown_ ? rules_markdown() : rules_text(Style::of_stdout());
    write_output(text);
    return exit_done;
  }

  Result<check::Options> options_given() {
    check::Options options;
    options.redaction = TRY(redact_.take());
    options.stop = &interrupted();
    if (duration_) options.duration = *duration_;
    if (profiles_.empty() || std::ranges::count(profiles_, "all") != 0) return options;
    for (const std::string& name : profiles_) {
      const auto* known = std::ranges::find(check::all_profiles, name,
                                            [](check::Profile one) { return check::name(one); });
      if (known == std::ranges::end(check::all_profiles))
        return fail(
            ErrorCode::usage, fmt::format("{}: no such profile", name),
            fmt::format("profiles are {}, and all", fmt::join(check::every_profile.names(), ", ")));
      options.claimed.add(*known);
    }
    options.profiles = options.claimed;
    return options;
  }

  /// False when the output has no reader.
  bool check(const ProbeTarget& target, const check::Options& options) {
    auto done = target.pid != 0 ? check::check_process(target.pid, options)
                                : check::check_file(target.path, options);
    if (!done) {
      const int code = report(done.error());
      refused_.push_back(std::move(done.error()));
      if (status_ == exit_done || status_ == exit_failed) status_ = code;
      return true;
    }
    failed_ = failed_ || cli::count(*done, strict_).failed != 0;
    something_ = something_ || !done->checked.empty();
    if (sarif_) {
      reports_.push_back(std::move(*done));
      return true;
    }
    for (const auto& texts : {done->unread, done->notes})
      for (const std::string& text : texts) note(done->target + ": " + text);
    if (json_)
      return std::ranges::all_of(done->findings, [&](const check::Finding& one) {
        return print_json(to_json(*done, one));
      });
    const std::string text =
        done->findings.empty()
            ? fmt::format("{}: publishes nothing that vitrine knows\n", printable(done->target))
            : check_text(*done, strict_, verbose_, Style::of_stdout());
    return write_output(text) && flush_output();
  }

  Result<int> finish() {
    if (sarif_)
      write_output(json_text(to_sarif(reports_, refused_, VITRINE_VERSION, verbose_), 2) + '\n');
    flush_output();
    if (interrupted()) return exit_interrupted;
    if (status_ != exit_done) return status_;
    if (!something_)
      return fail(ErrorCode::failed, "nothing to check",
                  "vitrine looked for label slots, probes and a process context; use --profile "
                  "to see which parts of a format are missing");
    return failed_ ? exit_failed : exit_done;
  }

  std::vector<std::string> words_, profiles_;
  std::optional<std::chrono::milliseconds> duration_;
  ProcessOptions processes_;
  RedactOptions redact_;
  bool strict_ = false, verbose_ = false, json_ = false, sarif_ = false, list_ = false,
       markdown_ = false;
  std::vector<check::Report> reports_;  ///< for SARIF, which is one document
  std::vector<Error> refused_;          ///< targets that could not be checked
  bool failed_ = false, something_ = false;
  int status_ = exit_done;
};

}  // namespace

std::unique_ptr<Command> make_check_command() {
  return std::make_unique<CheckCommand>();
}

}  // namespace vitrine::cli
