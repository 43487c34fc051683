// vitrine ps: every process that publishes anything.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/output/json.hpp"
#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "cli/shell/options.hpp"
#include "cli/shell/report.hpp"
#include "cli/shell/run.hpp"
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

std::string processes(std::size_t count) {
  return count == 1 ? "1 process" : fmt::format("{} processes", count);
}

class PsCommand : public Command {
 public:
  Manual manual() const override {
    return {"ps",
            "list the processes that publish labels, a process context or probes",
            {"Looks in every process for label sets in any known format and for a process context. "
             "Stops no thread and needs no cooperation from the processes. Reading processes of "
             "other users requires CAP_SYS_PTRACE; the last line reports how many processes could "
             "not be read.",
             "The list shows the number of static probes of each process. Every C++ program has "
             "some, so processes with probes only are listed with --probes."},
            {{"vitrine ps", "a table: pid, threads, service, probes, formats"},
             {"vitrine ps --probes", "also processes that only have probes"},
             {"vitrine ps --json", "one JSON object for each process"}},
            {"labels", "context", "probes", "doctor"}};
  }

  void define(CLI::App& app) override {
    app.add_flag("--probes", probes_, "Also list processes that only have static probes");
    redact_.define(app, "attributes");
    add_json(app, json_, "process");
  }

  Needs needs() const override { return needs_of_reading(); }

  std::vector<Use> uses() const override {
    return {{"ps",
             {},
             capabilities::ptrace,
             "your own processes are listed, and the number of unread processes is reported"}};
  }

  Result<int> run() override {
    auto redaction = TRY(redact_.take());
    observe::ListOptions options;
    options.with_probes = probes_;
    options.redaction = std::move(redaction);
    ListingProgress progress;
    options.progress = [&](std::size_t done, std::size_t all) { progress.show(done, all); };
    const auto list = observe::list_publishers(options);
    progress.clear();
    if (!list) return report(list.error());
    if (json_) {
      for (const observe::Publisher& publisher : list->publishers)
        if (!print_json(to_json(publisher))) return exit_done;
    } else {
      show(*list);
    }
    flush_output();
    if (list->not_permitted > 0)
      note(
          fmt::format("{} of {} processes could not be read: they belong to other users "
                      "(CAP_SYS_PTRACE helps) or have more privileges than vitrine",
                      list->not_permitted, list->looked_at));
    if (list->unread > 0)
      note(fmt::format("{} could not be read: {}", processes(list->unread),
                       printable(list->why_unread)));
    if (list->cut > 0)
      note(fmt::format("{} {} read in part: more would exceed the time limit", processes(list->cut),
                       list->cut == 1 ? "was" : "were"));
    return exit_done;
  }

 private:
  static void show(const observe::PublisherList& list) {
    const Style style = Style::of_stdout();
    if (list.publishers.empty()) {
      write_output(fmt::format("none of {} processes publishes labels or a process context\n",
                               list.looked_at));
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
    write_output(table.str());
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
