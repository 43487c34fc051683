// vitrine: what processes put on display, read from outside.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>

#include "cli/command.hpp"
#include "cli/completion.hpp"
#include "cli/confinement.hpp"
#include "cli/dtrace_spelling.hpp"
#include "cli/duration.hpp"
#include "cli/exit_code.hpp"
#include "cli/manual.hpp"
#include "cli/report.hpp"
#include "cli/text.hpp"

namespace vitrine::cli {

namespace {

/// `--watch` may stand alone, and CLI11 cannot tell its value from a PID that follows: give it one.
/// What follows `--exec --` is one command line and not ours to parse: each word becomes a value of
/// the hidden option that takes it.
std::vector<std::string> normalise(int argc, char** argv) {
  std::vector<std::string> args;
  bool exec = false;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    exec = exec || arg == "--exec";
    if (exec && arg == "--") {
      for (++i; i < argc; ++i) args.push_back(std::string("--exec-word=") + argv[i]);
    } else if (arg == "--watch") {
      const bool value_follows = i + 1 < argc &&
                                 std::isdigit(static_cast<unsigned char>(*argv[i + 1])) != 0 &&
                                 parse_duration(argv[i + 1]).has_value();
      args.push_back(std::string("--watch=") + (value_follows ? argv[++i] : "1s"));
    } else {
      args.push_back(arg);
    }
  }
  std::reverse(args.begin(), args.end());  // the order in which CLI11 takes a vector
  return args;
}

using Parsers = std::vector<std::pair<CLI::App*, Command*>>;

/// Defines `command` and what is within it below `above`.
void add(CLI::App& above, Command& command, Parsers& parsers) {
  const Manual manual = command.manual();
  // "usdt header" is the command `header` below `usdt`.
  const std::string name = manual.name.substr(manual.name.rfind(' ') + 1);
  CLI::App* app = above.add_subcommand(name, manual.summary);
  app->footer([&command] { return help_footer(command.manual()); });
  app->formatter(help_formatter());
  command.define(*app);
  parsers.emplace_back(app, &command);
  const std::vector<Command*> parts = command.parts();
  if (!parts.empty()) app->require_subcommand(1);
  for (Command* part : parts) add(*app, *part, parsers);
}

int run(int argc, char** argv) {
  CLI::App app("Reads what processes put on display (labels, context, probes), from outside.",
               "vitrine");
  app.set_version_flag("--version", "vitrine " VITRINE_VERSION);
  app.require_subcommand(1);
  app.footer("\nvitrine COMMAND --help tells more. Start with: vitrine ps");
  std::string man, shell;
  app.add_option("--man", man, "Print a manual page as roff, for man(1)")->group("");
  app.add_option("--completion", shell, "Print the script by which a shell completes our commands")
      ->option_text("bash|zsh|fish");

  auto commands = all_commands();
  // The others would take longer to define than many a command takes to run.
  const auto named = std::find_if(commands.begin(), commands.end(), [&](const auto& command) {
    return argc > 1 && command->manual().name == argv[1];
  });
  if (named != commands.end()) {
    std::swap(*named, commands.front());
    commands.resize(1);
  }
  Parsers parsers;
  for (const auto& command : commands) add(app, *command, parsers);
  if (argc == 3 && std::string_view(argv[1]) == "--man") {
    for (const auto& [sub, command] : parsers)
      if (page_name(command->manual()) == argv[2])
        std::fputs(man_page(*command, *sub).c_str(), stdout);
    if (std::string_view(argv[2]) == "vitrine") std::fputs(man_page(commands).c_str(), stdout);
    return exit_done;
  }
  if (argc == 3 && std::string_view(argv[1]) == "--completion") {
    const auto script = completion_script(argv[2], app);
    if (!script) {
      std::fprintf(stderr, "vitrine: completions are for bash, zsh and fish, not for %s\n",
                   printable(argv[2]).c_str());
      return exit_usage;
    }
    std::fputs(script->c_str(), stdout);
    return exit_done;
  }
  if (argc == 1) {
    std::fputs(app.help().c_str(), stdout);
    return exit_usage;
  }
  try {
    app.parse(normalise(argc, argv));
  } catch (const CLI::ParseError& error) {
    // Help is ours; an error quotes the arguments, which may be names of files.
    if (error.get_exit_code() == 0) return app.exit(error) == 0 ? exit_done : exit_usage;
    std::fprintf(stderr, "%s\nRun with --help for more information.\n",
                 printable(error.what()).c_str());
    return exit_usage;
  }
  for (const auto& [sub, command] : parsers)
    if (sub->parsed() && command->parts().empty()) {
      if (auto confined = begin_confined(command->needs()); !confined)
        return report(confined.error());
      return command->run();
    }
  return exit_usage;
}

}  // namespace
}  // namespace vitrine::cli

int main(int argc, char** argv) try {
  if (argc > 0 && vitrine::cli::is_called_dtrace(argv[0]))
    return vitrine::cli::run_as_dtrace(argc, argv);
  return vitrine::cli::run(argc, argv);
} catch (const std::exception& failure) {  // no memory, mostly: our own errors are values
  std::fprintf(stderr, "vitrine: %s\n", vitrine::cli::printable(failure.what()).c_str());
  return vitrine::cli::exit_failed;
}
