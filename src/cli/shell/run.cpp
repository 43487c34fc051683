#include "cli/shell/run.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <sstream>

#include "cli/output/live.hpp"
#include "cli/shell/completion.hpp"
#include "cli/shell/confinement.hpp"
#include "cli/shell/manual.hpp"
#include "cli/shell/options.hpp"
#include "cli/shell/report.hpp"

namespace vitrine::cli {

namespace {

struct NamedCommand {
  std::string_view name;
  std::unique_ptr<Command> (*make)();
};

constexpr NamedCommand commands_by_name[] = {
    {"ps", make_ps_command},           {"labels", make_labels_command},
    {"context", make_context_command}, {"probes", make_probes_command},
    {"trace", make_trace_command},     {"profile", make_profile_command},
    {"agent", make_agent_command},     {"check", make_check_command},
    {"usdt", make_usdt_command},       {"doctor", make_doctor_command}};

}  // namespace

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  for (const NamedCommand& one : commands_by_name) commands.push_back(one.make());
  return commands;
}

namespace {

/// With a unit: a number alone is a process.
bool is_duration(std::string_view word) {
  return !word.empty() && std::isdigit(static_cast<unsigned char>(word.front())) != 0 &&
         std::isalpha(static_cast<unsigned char>(word.back())) != 0 &&
         parse_duration(word).has_value();
}

/// Whether what follows -- is a program to start, also without --exec.
bool takes_command(int argc, const char* const* argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  return name == "labels" || name == "trace" || name == "profile";
}

}  // namespace

std::vector<std::string> words_of(int argc, const char* const* argv) {
  std::vector<std::string> words;
  bool exec = false;
  bool help = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    exec = exec || word == exec_option;
    if (i == 1 && word == "help") {
      help = true;
    } else if (word == "--" && (exec || takes_command(argc, argv))) {
      if (!exec) words.emplace_back(exec_option);
      exec = true;
      for (++i; i < argc; ++i) words.push_back(std::string(exec_word_option) + '=' + argv[i]);
    } else if (word == watch_option) {
      const bool value_follows = i + 1 < argc && is_duration(argv[i + 1]);
      words.push_back(word + '=' + (value_follows ? argv[++i] : usual_interval));
    } else {
      words.push_back(word);
    }
  }
  if (help) words.emplace_back("--help");
  return words;
}

namespace {

/// Defines `command` and what is within it below `above`.
void add(CLI::App& above, Command& command, std::vector<DefinedCommand>& parsers) {
  const Manual manual = command.manual();
  // "usdt header" is the command `header` below `usdt`.
  const std::string name = manual.name.substr(manual.name.rfind(' ') + 1);
  CLI::App* app = above.add_subcommand(name, manual.summary);
  app->footer([&command] { return help_footer(command.manual()); });
  app->formatter(help_formatter());
  command.define(*app);
  parsers.push_back({&command, app});
  const std::vector<Command*> parts = command.parts();
  if (!parts.empty()) app->require_subcommand(command.runs_alone() ? 0 : 1, 1);
  for (Command* part : parts) add(*app, *part, parsers);
}

/// All of them, or the one that is named: the others would take longer to define than many a command
/// takes to run.
std::vector<std::unique_ptr<Command>> commands_for(const std::vector<std::string>& words) {
  const auto* named = std::ranges::find_if(commands_by_name, [&](const NamedCommand& one) {
    return !words.empty() && one.name == words.front();
  });
  if (named == std::ranges::end(commands_by_name)) return all_commands();
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(named->make());
  return commands;
}

}  // namespace

int run(int argc, char** argv) {
  const std::vector<std::string> words = words_of(argc, argv);
  CLI::App app("Shows which request, tenant or trace each thread of a process is serving.",
               "vitrine");
  constexpr const char* version = "vitrine " VITRINE_VERSION;
  app.set_version_flag("--version", version);
  app.formatter(help_formatter());
  std::string pages, shell;
  app.add_option("--man-into", pages, "Write all manual pages into this directory")->group("");
  app.add_option("--completion", shell, "Print the completion script of a shell")
      ->option_text("bash|zsh|fish");

  if (words.size() == 1 && words.front() == "--version") {  // without defining every command
    write_output(std::string(version) + '\n');
    return exit_done;
  }
  const auto commands = commands_for(words);
  std::vector<DefinedCommand> parsers;
  for (const auto& command : commands) add(app, *command, parsers);
  // Commands that are added later would have it, too.
  app.footer("See vitrine COMMAND --help for details. Start with: vitrine ps\n");
  if (words.empty()) {
    write_output(app.help());
    return exit_usage;
  }
  if (auto known = check_words(app, words); !known) return report(known.error());
  try {
    // The order in which CLI11 takes a vector.
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // help, or the version
      std::ostringstream text;
      const int status = app.exit(error, text);
      write_output(text.str());
      return status;
    }
    return report(usage_error(app, error));
  }
  if (!pages.empty()) {
    const auto written = write_man_pages(pages, commands, parsers);
    return written ? exit_done : report(written.error());
  }
  if (!shell.empty()) {
    write_output(completion_script(shell, app));
    return exit_done;
  }
  for (const auto& [command, sub] : parsers)
    if (sub->parsed() && sub->get_subcommands().empty()) {
      if (auto confined = begin_confined(command->needs()); !confined)
        return report(confined.error());
      const auto done = command->run();
      return done ? *done : report(done.error());
    }
  return report({ErrorCode::usage, "missing command", "`vitrine --help` lists the commands"});
}

}  // namespace vitrine::cli
