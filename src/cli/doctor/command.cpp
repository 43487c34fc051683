// vitrine doctor: what this machine and user may do, and what would enable the rest.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cli/output/json.hpp"
#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "cli/shell/confinement.hpp"
#include "cli/shell/manual.hpp"
#include "cli/shell/options.hpp"
#include "cli/shell/report.hpp"
#include "cli/shell/run.hpp"
#include "observe/doctor.hpp"

namespace vitrine::cli {
namespace {

using Support = observe::Finding::Verdict;

constexpr std::string_view commands_topic = "commands";

std::string coloured(Support verdict, const Style& style) {
  switch (verdict) {
    case Support::yes:
      return style.green(observe::name(verdict));
    case Support::partial:
      return style.yellow(observe::name(verdict));
    case Support::no:
      break;
  }
  return style.red(observe::name(verdict));
}

/// What holds for this command holds for the others.
std::vector<observe::Finding> confinement_findings() {
  const Confinement now = confinement_now();
  observe::Finding gains{"confinement",
                         "no_new_privs",
                         Support::yes,
                         "commands and their file parsers gain no privileges",
                         {}};
  if (!now.no_new_privs) gains.verdict = Support::no, gains.remedy = "Linux 3.5 or later";
  observe::Finding calls{
      "confinement", "seccomp", Support::yes, "system calls of commands are filtered", {}};
  if (!now.calls_filtered) {
    calls.verdict = Support::no;
    calls.detail = "system calls of commands are not filtered";
    calls.remedy = "a kernel with CONFIG_SECCOMP_FILTER, without VITRINE_SECCOMP=off";
  }
  return {std::move(gains), std::move(calls)};
}

class DoctorCommand : public Command {
 public:
  Manual manual() const override {
    return {"doctor",
            "show what works on this machine for this user, and how to enable the rest",
            {"Tries each kernel feature and permission that the other commands use, without side "
             "effects, and shows which reading modes work here. For each one that does not work, "
             "the line below it names the remedy. Then shows how vitrine confines itself, which "
             "commands work for this user, and the command line that enables the rest."},
            {{"vitrine doctor", "capabilities, kernel features, reading modes"},
             {"vitrine doctor --json", "one JSON object for each finding"}},
            {"labels", "capabilities(7)"}};
  }

  void define(CLI::App& app) override {
    add_json(app, json_, "finding");
    app.add_flag("--markdown", markdown_,
                 "Print the capabilities of commands as a table for documents")
        ->group("");
  }

  Needs needs() const override {
    Needs needs = needs_of_bpf();
    // Old kernels' uprobes are reported, too.
    needs.setting_up = needs.working =
        needs.working | capabilities::kernel_names | capabilities::admin;
    needs.calls.allow(sandbox::Calls::tracing);
    return needs;
  }

  std::vector<Use> uses() const override { return {{"doctor", {}, {}, ""}}; }

  Result<int> run() override {
    const auto commands = all_commands();
    if (markdown_) {
      write_output(uses_markdown(commands));
      return exit_done;
    }
    std::vector<observe::Finding> findings = observe::examine();
    for (observe::Finding& finding : confinement_findings()) findings.push_back(std::move(finding));
    const auto held = sandbox::effective_capabilities();
    const bool has_uprobe_multi = has(findings, "uprobe_multi");
    for (observe::Finding& finding : uses_for(commands, held, has_uprobe_multi))
      findings.push_back(std::move(finding));
    if (json_) {
      for (const observe::Finding& finding : findings)
        if (!print_json(to_json(finding))) break;
      return exit_done;
    }
    const Style style = Style::of_stdout();
    std::size_t at = 0;
    while (at < findings.size()) {
      const std::string& topic = findings[at].topic;
      Table table;
      std::string remedies;
      for (; at < findings.size() && findings[at].topic == topic; ++at) {
        const observe::Finding& finding = findings[at];
        table.row({coloured(finding.verdict, style), finding.what, printable(finding.detail)});
        if (finding.verdict != Support::yes && !finding.remedy.empty() && topic != commands_topic)
          remedies += fmt::format("  {} {}: {}\n", style.yellow("->"), finding.what,
                                  printable(finding.remedy));
      }
      const std::string line = enabling_line(commands, held, has_uprobe_multi);
      if (topic == commands_topic && !line.empty())
        remedies = fmt::format("  {} to enable all: {}\n", style.yellow("->"), printable(line));
      write_output(fmt::format("{}\n{}{}\n", style.bold(topic), table.str(2), remedies));
    }
    return exit_done;
  }

 private:
  static bool has(const std::vector<observe::Finding>& findings, std::string_view what) {
    return std::ranges::any_of(findings, [&](const observe::Finding& finding) {
      return finding.what == what && finding.verdict == Support::yes;
    });
  }

  bool json_ = false;
  bool markdown_ = false;
};

}  // namespace

std::unique_ptr<Command> make_doctor_command() {
  return std::make_unique<DoctorCommand>();
}

}  // namespace vitrine::cli
