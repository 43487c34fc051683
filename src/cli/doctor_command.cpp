// vitrine doctor: what this machine and user may do, and what would enable the rest.
#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/json.hpp"
#include "cli/text.hpp"
#include "observe/doctor.hpp"

namespace vitrine::cli {
namespace {

using Verdict = observe::Finding::Verdict;

std::string coloured(Verdict verdict, const Style& style) {
  switch (verdict) {
    case Verdict::yes:
      return style.green(observe::name(verdict));
    case Verdict::partial:
      return style.yellow(observe::name(verdict));
    case Verdict::no:
      break;
  }
  return style.red(observe::name(verdict));
}

class DoctorCommand : public Command {
 public:
  Manual manual() const override {
    return {
        "doctor",
        "say what this machine and user may do, and what would enable the rest",
        {"Tries each kernel feature and permission that the other commands use, harming nobody, "
         "and tells which reading modes work here. For what does not, the line below says what "
         "would change it."},
        {{"vitrine doctor", "capabilities, kernel features, reading modes"},
         {"vitrine doctor --json", "one JSON object a finding"}},
        {"labels", "capabilities(7)"}};
  }

  void define(CLI::App& app) override {
    app.add_flag("--json", json_, "One JSON object a finding, one a line");
  }

  int run() override {
    const std::vector<observe::Finding> findings = observe::examine();
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
        if (finding.verdict != Verdict::yes && !finding.remedy.empty())
          remedies += fmt::format("  {} {}: {}\n", style.yellow("->"), finding.what,
                                  printable(finding.remedy));
      }
      fmt::print("{}\n{}{}\n", style.bold(topic), table.str(2), remedies);
    }
    return exit_done;
  }

 private:
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_doctor_command() {
  return std::make_unique<DoctorCommand>();
}

}  // namespace vitrine::cli
