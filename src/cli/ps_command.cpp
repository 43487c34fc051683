// vitrine ps: every process that publishes anything.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/json.hpp"
#include "cli/redact_options.hpp"
#include "cli/report.hpp"
#include "cli/text.hpp"
#include "observe/ps.hpp"

namespace vitrine::cli {
namespace {

std::vector<std::string_view> format_names(const observe::Publisher& publisher) {
  std::vector<std::string_view> names;
  for (const format::Format format : publisher.formats) names.push_back(format::name(format));
  return names;
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

class PsCommand : public Command {
 public:
  Manual manual() const override {
    return {
        "ps",
        "list the processes that publish anything",
        {"Looks at every process for label sets in any known format and for a process context. "
         "Nothing is stopped, and nothing is needed from the processes. Processes of other users "
         "can be looked into with CAP_SYS_PTRACE; how many were not is said at the end.",
         "Each has the number of its static probes beside it. As every program in C++ has some, "
         "those that have nothing else are listed with --probes only."},
        {{"vitrine ps", "a table: pid, threads, service, probes, formats"},
         {"vitrine ps --probes", "those that can be traced, too"},
         {"vitrine ps --json", "one JSON object a process"}},
        {"labels", "context", "probes", "doctor"}};
  }

  void define(CLI::App& app) override {
    app.add_flag("--probes", probes_, "List processes that offer static probes alone, too");
    redact_.define(app, "attributes");
    app.add_flag("--json", json_, "One JSON object a process, one a line");
  }

  Needs needs() const override { return needs_of_reading(); }

  std::vector<Use> uses() const override {
    return {{"ps",
             {},
             capabilities::ptrace,
             "your own processes are listed; how many others were "
             "not looked into is said"}};
  }

  int run() override {
    auto redaction = redact_.take();
    if (!redaction) return report(redaction.error());
    const auto list =
        observe::list_publishers({.with_probes = probes_, .redaction = std::move(*redaction)});
    if (!list) return report(list.error());
    if (json_) {
      for (const observe::Publisher& publisher : list->publishers)
        if (!print_json(to_json(publisher))) return exit_done;
    } else {
      show(*list);
    }
    std::fflush(stdout);
    if (list->not_permitted > 0)
      note(
          fmt::format("{} of {} processes could not be looked into: they belong to other users "
                      "(CAP_SYS_PTRACE helps) or have more privileges than vitrine has",
                      list->not_permitted, list->looked_at));
    return exit_done;
  }

 private:
  static void show(const observe::PublisherList& list) {
    const Style style = Style::of_stdout();
    if (list.publishers.empty()) {
      fmt::print("none of {} processes publishes labels or a process context\n", list.looked_at);
      return;
    }
    Table table;
    table.row({style.dim("PID"), style.dim("COMMAND"), style.dim("THREADS"), style.dim("SERVICE"),
               style.dim("CONTEXT"), style.dim("PROBES"), style.dim("LABEL FORMATS")});
    for (const observe::Publisher& publisher : list.publishers) {
      std::string formats = fmt::format("{}", fmt::join(format_names(publisher), ", "));
      for (const std::string& problem : publisher.problems)
        formats += (formats.empty() ? "" : " ") + style.yellow("(" + printable(problem) + ")");
      table.row({style.bold(std::to_string(publisher.pid)), printable(publisher.comm),
                 std::to_string(publisher.threads), or_dash(printable(publisher.service)),
                 publisher.has_context ? "yes" : "-",
                 publisher.probes == 0 ? "-" : std::to_string(publisher.probes), or_dash(formats)});
    }
    fmt::print("{}", table.str());
  }

  RedactOptions redact_;
  bool probes_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_ps_command() {
  return std::make_unique<PsCommand>();
}

}  // namespace vitrine::cli
