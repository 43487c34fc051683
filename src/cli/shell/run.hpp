// The command line: what a command is, all of them, and how one is run.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/shell/confinement.hpp"

namespace vitrine::cli {

// Command: one verb of `vitrine`. What CLI11 parses, what --help and the man page print, and what
// runs live in one object, so that they cannot disagree.

/// A command line that works unchanged, and what it shows.
struct Example {
  std::string line;
  std::string shows;
};

struct Manual {
  std::string name;                     ///< "probes"; of a command of a command: "usdt header"
  std::string summary;                  ///< one line, lower case, no full stop
  std::vector<std::string> paragraphs;  ///< what a user needs to know beyond the options
  std::vector<Example> examples;
  std::vector<std::string> see_also;  ///< other commands, or pages as "perf(1)"
};

class Command {
 public:
  Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  virtual ~Command() = default;

  virtual Manual manual() const = 0;
  virtual void define(CLI::App& app) = 0;
  /// What it may do, with the options given; its caller calls begin_confined with that.
  virtual Needs needs() const = 0;
  /// Its uses, by what each takes. Empty: none takes anything.
  virtual std::vector<Use> uses() const { return {}; }
  /// Does the work; returns an ExitCode, or an error, which its caller reports.
  virtual Result<int> run() = 0;
  /// The commands within this one. If the user gives one of them, that runs, not this.
  virtual std::vector<Command*> parts() { return {}; }
  /// Whether it runs where the user gives none of them.
  virtual bool runs_alone() const { return false; }
};

/// Every command, in the order in which help lists them.
std::vector<std::unique_ptr<Command>> all_commands();

std::unique_ptr<Command> make_ps_command();
std::unique_ptr<Command> make_labels_command();
std::unique_ptr<Command> make_context_command();
std::unique_ptr<Command> make_doctor_command();
std::unique_ptr<Command> make_probes_command();
std::unique_ptr<Command> make_trace_command();
std::unique_ptr<Command> make_profile_command();
std::unique_ptr<Command> make_profile_merge_command();
std::unique_ptr<Command> make_profile_diff_command();
std::unique_ptr<Command> make_profile_open_command();
std::unique_ptr<Command> make_agent_command();
std::unique_ptr<Command> make_check_command();
std::unique_ptr<Command> make_usdt_command();
std::unique_ptr<Command> make_usdt_header_command();
std::unique_ptr<Command> make_usdt_link_command();
std::unique_ptr<Command> make_usdt_dump_command();

// The words of a command line, as CLI11 is to take them apart.

/// `--watch` may have no value, and CLI11 cannot distinguish its value from a PID that follows: it is
/// given one. What follows `--exec … --` is one command line that vitrine does not parse: each word
/// becomes a value of the hidden option --exec-word. `help COMMAND` is `COMMAND --help`.
std::vector<std::string> words_of(int argc, const char* const* argv);

// The command line, from its words to the command that they name.

/// Parses what main() was given, and runs the command that is named there. Returns an ExitCode.
int run(int argc, char** argv);

}  // namespace vitrine::cli
