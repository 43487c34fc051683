// Options that several commands have, and values that they share: counts, durations, redaction,
// targets of probes. What is defined here or in a command is the only description of an option:
// CLI11 parses by it, and help, manual pages, completion and the check of words read it.
#pragma once

#include <sys/types.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/redaction.hpp"
#include "base/result.hpp"
#include "probe/probe.hpp"

namespace vitrine::cli {

// Options of several commands.

inline constexpr const char* watch_option = "--watch";
inline constexpr const char* usual_interval = "1s";  ///< of --watch
inline constexpr const char* exec_option = "--exec";
inline constexpr const char* exec_word_option = "--exec-word";  ///< hidden: see words_of()

/// Ends the parsing of a command line: what is wrong with the value of an option.
struct OptionError : CLI::ParseError {
  OptionError(const std::string& option, vitrine::Error reason)
      : ParseError("OptionError", option + ": " + reason.message, CLI::ExitCodes::ValidationError),
        error(std::move(reason)) {}

  vitrine::Error error;
};

/// An option whose value `parse` makes of a text. Parsing throws OptionError.
template <class Value>
CLI::Option* add_parsed(CLI::App& app, const std::string& name, std::optional<Value>& into,
                        Result<Value> (*parse)(std::string_view), const std::string& help) {
  return app.add_option_function<std::string>(
      name,
      [&into, parse, name](const std::string& text) {
        auto value = parse(text);
        if (!value) throw OptionError(name.substr(name.rfind(',') + 1), std::move(value.error()));
        into = *value;
      },
      help);
}

/// --duration. `until`: "Stop after this time".
CLI::Option* add_duration(CLI::App& app, std::optional<std::chrono::milliseconds>& into,
                          const std::string& until = "Stop after this time: 500ms, 10s, 2m");

/// --watch. `action`: "Read again", of every interval; `more`: the rest of the sentence.
CLI::Option* add_watch(CLI::App& app, std::optional<std::chrono::milliseconds>& into,
                       const std::string& action, const std::string& more = {});

/// --json. `object`: what each object is for: "fire".
CLI::Option* add_json(CLI::App& app, bool& into, const std::string& object);

/// --exec, and what follows its --. `action`: what is done with the command: "trace".
CLI::Option* add_exec(CLI::App& app, bool& exec, std::vector<std::string>& command,
                      const std::string& action);

/// An option that takes one of the words of `choices`, pairs of a word and the value that `into` gets.
template <class Into, class Choices>
CLI::Option* add_choice(CLI::App& app, const std::string& name, Into& into, const Choices& choices,
                        const std::string& help) {
  using Value = typename Choices::value_type::second_type;
  std::vector<std::pair<std::string, Value>> words;
  std::string placeholder;
  for (const auto& [word, value] : choices) {
    words.emplace_back(word, value);
    placeholder += (placeholder.empty() ? "" : "|") + words.back().first;
  }
  return app.add_option(name, into, help)
      ->transform(CLI::CheckedTransformer(std::move(words)).description(""))
      ->option_text(std::move(placeholder));
}

// A positive integer, as the value of an option.

/// For CLI::Option::check.
inline std::string at_least_one(const std::string& text) {
  const bool whole = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (whole && text.find_first_not_of('0') != std::string::npos) return {};
  return "expected a positive integer, not '" + text + "'";
}

/// The same for a process ID or thread ID: one that the system calls take.
std::string process_id(const std::string& text);

// Durations as users write them: "500ms", "2s", "1m".

/// Parses a number such as 5 or 1.5, with a unit of ms, s, m or h; of seconds without. Fails as
/// `usage`, naming what was given.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

/// The same with units down to ns, one of which must be there: 250us, 10ms.
Result<std::chrono::nanoseconds> parse_short_duration(std::string_view text);

/// As parse_duration(); 0 is refused, too.
Result<std::chrono::milliseconds> parse_interval(std::string_view text);

// Processes as other tools take them, too.

/// -p PID and -n NAME, beside the arguments of a command.
class ProcessOptions {
 public:
  void define(CLI::App& app);

  [[nodiscard]] bool given() const { return !pids_.empty() || !names_.empty(); }

  /// Those of numbers, then those of names, each once. Errors: not_found (a name of none).
  Result<std::vector<pid_t>> take() const;

  /// For a command about one process: `argument` is what was given without an option; 0: nothing.
  /// Errors: as take(); usage (several).
  Result<pid_t> take_one(pid_t argument) const;

 private:
  std::vector<pid_t> pids_;
  std::vector<std::string> names_;
};

// --redact and what belongs to it: of which keys a hash is shown instead of the values.

class RedactOptions {
 public:
  /// `what`: of what this command shows the values: "labels", "attributes".
  void define(CLI::App& app, const std::string& what);

  /// With the secret of the file, else of VITRINE_REDACT_SECRET, else a random one. The variable is
  /// taken out of the environment, so that no program that is started has it. Errors: usage.
  Result<Redaction> take();

  // A slip in a KEY would show what should be hidden: which of them met something is kept.
  void look_at_label(std::string_view key);
  void look_at_attribute(std::string_view key);
  void look_at_argument(std::size_t number, std::string_view name);
  /// Notes each KEY that met nothing. To be called where something was looked at.
  void report_unmet() const;

 private:
  template <class Covers>
  void look_at(Covers covers);

  std::vector<std::string> keys_;
  std::vector<std::pair<std::string, Redaction>> unmet_;  ///< by key
  std::string secret_file_;
};

// What the words of a command line about probes mean: processes, files, patterns.

struct ProbeTarget {
  int pid = 0;       ///< 0: a file
  std::string path;  ///< of a file
};

struct ProbeWords {
  std::vector<ProbeTarget> targets;  ///< at least one
  std::vector<probe::Pattern> patterns;
  std::vector<std::string> functions;  ///< those of the patterns that are of functions
};

/// How many words are targets when probes follow them: the first, and each behind it that is a
/// number or a path with a slash.
std::size_t leading_targets(std::span<const std::string> words);

/// "func:MODULE:FUNCTION" is a pattern, and without targets means the file of its module. Digits are
/// a process; what has a slash, or is the name of a file here, is a file; what has a
/// colon or a wildcard, a pattern; anything else the name of a program in PATH. Errors: usage (no
/// target), not_found (no such file or program).
Result<ProbeWords> parse_targets(std::span<const std::string> words);

}  // namespace vitrine::cli
