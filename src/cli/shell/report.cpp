#include "cli/shell/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "cli/shell/options.hpp"

namespace vitrine::cli {

int report(const Error& error) {
  print_error("vitrine: {}\n", printable(error.message));
  std::string_view rest = error.remedy;  // of several lines where it points at a place in a text
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    print_error("  {}\n", printable(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  // The end of --duration stops a reading, too.
  if (error.code == ErrorCode::interrupted && !interrupted()) return exit_failed;
  return exit_code(error);
}

void note(std::string_view text) {
  print_error("vitrine: note: {}\n", printable(text));
}

bool is_end_of_duration(const Error& error) {
  if (error.code != ErrorCode::interrupted || !stopped() || interrupted()) return false;
  note("the duration ended during a reading");
  return true;
}

namespace {

bool is_choice(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

}  // namespace

std::vector<std::string> choices_of(std::string_view placeholder) {
  const std::string_view words = placeholder.substr(0, placeholder.find(' '));
  if (words.find('|') == std::string_view::npos) return {};
  std::vector<std::string> choices;
  for (std::size_t at = 0; at <= words.size();) {
    const std::size_t end = std::min(words.find('|', at), words.size());
    if (!is_choice(words.substr(at, end - at))) return {};
    choices.emplace_back(words.substr(at, end - at));
    at = end + 1;
  }
  return choices;
}

namespace {

using Arguments = std::span<const std::string>;
using Names = std::vector<std::string>;

/// Null: it has none of this name. CLI11's own search is noexcept and allocates.
const CLI::Option* option_of(const CLI::App& app, const std::string& name) {
  for (const CLI::Option* option : app.get_options())
    if (option->check_name(name)) return option;
  return nullptr;
}

std::vector<const CLI::App*> parts_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

Names names_of(const std::vector<const CLI::App*>& apps) {
  Names names;
  for (const CLI::App* app : apps) names.push_back(app->get_name());
  return names;
}

Names options_of(const CLI::App& app) {
  Names names;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty())  // else it is not for users
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string_view without_dashes(std::string_view name) {
  return name.substr(std::min(name.find_first_not_of('-'), name.size()));
}

/// Which of `names` was meant: one that begins like `word` or that `word` begins with, or that a slip or two away
/// is.
std::optional<std::string> meant(std::string_view word, const Names& names) {
  const std::string_view typed = without_dashes(word);
  std::size_t least =
      std::min(std::max<std::size_t>(2, typed.size() / 3), (typed.size() + 1) / 2) + 1;
  const std::string* nearest = nullptr;
  for (const std::string& name : names) {
    const std::string_view known = without_dashes(name);
    const bool begun = typed.size() > 1 &&
                       (known.starts_with(typed) || (known.size() > 2 && typed.starts_with(known)));
    const std::size_t far = begun ? 0 : spelling_distance(typed, known);
    if (far >= least) continue;
    least = far;
    nearest = &name;
  }
  return nearest == nullptr ? std::nullopt : std::optional(*nearest);
}

/// The command that was meant, also by the name of another tool.
std::optional<std::string> command_meant(const CLI::App& app, std::string_view word) {
  const Names names = names_of(parts_of(app));
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> of_others{
      {{"record", "profile"}, {"top", "profile"}, {"list", "ps"}, {"attach", "trace"}}};
  for (const auto& [theirs, ours] : of_others)
    if (word == theirs && std::ranges::find(names, ours) != names.end()) return std::string(ours);
  return meant(word, names);
}

/// The option that was meant, also by the name that other tools have for it.
std::optional<std::string> option_meant(const CLI::App& app, std::string_view name) {
  const Names names = options_of(app);
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> of_others{
      {{"--time", "--duration"},
       {"--seconds", "--duration"},
       {"--timeout", "--duration"},
       {"--rate", "--freq"},
       {"--hz", "--freq"}}};
  for (const auto& [theirs, ours] : of_others)
    if (name == theirs && std::ranges::find(names, ours) != names.end()) return std::string(ours);
  return meant(name, names);
}

/// "vitrine usdt header"
std::string called(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name()
                                     : called(*app.get_parent()) + ' ' + app.get_name();
}

tl::unexpected<Error> wrong(const CLI::App& app, std::string message,
                            const std::optional<std::string>& instead, std::string_view help) {
  std::string remedy = instead ? fmt::format("did you mean {}? ", *instead) : std::string();
  remedy += fmt::format("`{} --help` {}", called(app), help);
  return fail(ErrorCode::usage, std::move(message), std::move(remedy));
}

/// "usdt header: ", and of vitrine itself nothing.
std::string prefix(const CLI::App& app) {
  return app.get_parent() == nullptr ? std::string()
                                     : called(app).substr(called(app).find(' ') + 1) + ": ";
}

tl::unexpected<Error> no_such_command(const CLI::App& app, const std::string& word) {
  return wrong(app, fmt::format("{}no such command: '{}'", prefix(app), word),
               command_meant(app, word), "lists the commands");
}

/// A word as a shell takes it.
std::string shell_word(std::string_view word) {
  const bool plain = !word.empty() && std::ranges::all_of(word, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./:,=@%+").find(c) != std::string_view::npos;
  });
  if (plain) return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + '\'';
}

/// The command line to copy: as words_of() has made its words.
std::string line_of(Arguments words) {
  std::string line = "vitrine";
  bool in_command = false;
  for (const std::string& word : words) {
    const std::string made = std::string(exec_word_option) + '=';
    if (word == exec_option) continue;
    if (word.starts_with(made) && !std::exchange(in_command, true)) line += " --";
    line += ' ' + shell_word(word.starts_with(made) ? word.substr(made.size()) : word);
  }
  return line;
}

/// The same with another word at its place.
std::string line_with(Arguments words, std::size_t at, std::string word) {
  std::vector<std::string> changed(words.begin(), words.end());
  changed[at] = std::move(word);
  return line_of(changed);
}

/// "--format json" for "--json": the option that takes this word.
std::optional<std::string> as_value(const CLI::App& app, std::string_view name) {
  for (const CLI::Option* option : app.get_options())
    if (std::ranges::count(choices_of(option->get_option_text()), without_dashes(name)) != 0)
      return fmt::format("{} {}", option->get_name(), without_dashes(name));
  return std::nullopt;
}

tl::unexpected<Error> no_such_option(const CLI::App& app, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const std::string message = fmt::format("{}no such option: {}", prefix(app), name);
  if (const auto instead = as_value(app, name))
    return wrong(app, message, instead, "lists the options");
  for (const CLI::App* part : parts_of(app))
    if (std::ranges::count(options_of(*part), name) != 0)
      return fail(ErrorCode::usage, message,
                  fmt::format("options follow the command: {} COMMAND {}", called(app), name));
  return wrong(app, message, option_meant(app, name), "lists the options");
}

Result<void> check_value(const CLI::App& app, const std::string& name, const CLI::Option& option,
                         std::string_view value) {
  const Names choices = choices_of(option.get_option_text());
  if (choices.empty()) return {};
  const char between = option.get_delimiter();
  while (!value.empty()) {
    const std::size_t end =
        between == '\0' ? value.size() : std::min(value.find(between), value.size());
    const std::string_view one = value.substr(0, end);
    value.remove_prefix(std::min(end + 1, value.size()));
    if (std::ranges::count(choices, one) == 0)
      return wrong(
          app,
          fmt::format("{}{} takes {}, not '{}'", prefix(app), name, fmt::join(choices, ", "), one),
          meant(one, choices), "shows details");
  }
  return {};
}

/// Takes a word that begins with a dash, and its value, if that is a word of its own.
class OptionWord {
 public:
  OptionWord(const CLI::App& app, Arguments words) : app_(app), words_(words) {}

  /// How many words it is.
  Result<std::size_t> check() const {
    const std::string& word = words_.front();
    const Names known = options_of(app_);
    const std::string with_dashes = '-' + word.substr(0, word.find('='));
    if (word.size() > 2 && std::ranges::count(known, with_dashes) != 0)  // -duration
      return no_such_option(app_, word);
    if (word.starts_with("--")) {
      const std::size_t equals = word.find('=');
      return take(word.substr(0, equals), equals != word.npos,
                  word.substr(std::min(equals, word.size() - 1) + 1));
    }
    for (std::size_t at = 1; at < word.size(); ++at) {  // -CDNAME is -C -D NAME
      const std::string name = {'-', word[at]};
      const CLI::Option* option = option_of(app_, name);
      if (option == nullptr) return no_such_option(app_, at == 1 ? word : name);
      if (option->get_items_expected_min() > 0)
        return take(name, at + 1 < word.size(), word.substr(at + 1));
    }
    return 1;
  }

 private:
  Result<std::size_t> take(const std::string& name, bool attached, std::string_view value) const {
    const CLI::Option* option = option_of(app_, name);
    if (option == nullptr) return no_such_option(app_, words_.front());
    const bool separate = !attached && option->get_items_expected_min() > 0;
    if (separate && words_.size() < 2)
      return wrong(
          app_,
          fmt::format("{}{} requires a value: {}", prefix(app_), name, option->get_option_text()),
          std::nullopt, "shows details");
    TRY(check_value(app_, name, *option, separate ? words_[1] : value));
    return separate ? 2 : 1;
  }

  const CLI::App& app_;
  Arguments words_;
};

/// With the line to copy, if it is known which word was meant in place of this one.
tl::unexpected<Error> with_line(Error error, const CLI::App& app, Arguments words, std::size_t at) {
  const std::string& word = words[at];
  const std::string name = word.substr(0, word.find('='));
  const bool is_option = name.starts_with('-');
  if (!is_option || option_of(app, name) == nullptr)
    if (const auto instead = is_option ? option_meant(app, name) : command_meant(app, name))
      error.remedy += '\n' + line_with(words, at, *instead + word.substr(name.size()));
  return tl::unexpected(std::move(error));
}

/// The place of a PID has something else: a program to start, or the name of one that runs.
Result<void> check_process(const CLI::App& app, Arguments words, std::size_t at) {
  const std::string& word = words[at];
  if (option_of(app, "PID") == nullptr || process_id(word).empty()) return {};
  Error error = wrong(app, fmt::format("{}PID: {}", prefix(app), process_id(word)), std::nullopt,
                      "lists the arguments")
                    .value();
  std::vector<std::string> line(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(at));
  if (word.find('/') == word.npos) {
    error.remedy +=
        fmt::format("\nfor a process by its name: {} -n {}", line_of(line), shell_word(word));
  }
  if (option_of(app, exec_option) != nullptr) {
    error.remedy += fmt::format("\nfor a program to start: {} --", line_of(line));
    for (const std::string& rest : words.subspan(at)) error.remedy += ' ' + shell_word(rest);
  }
  return tl::unexpected(std::move(error));
}

/// Options of which one is nothing without the other: words_of() makes the second of what follows --.
Result<void> check_exec(Arguments words) {
  const auto is_word = [](const std::string& word) { return word.starts_with(exec_word_option); };
  if (std::ranges::count(words, exec_option) == 0 || std::ranges::any_of(words, is_word)) return {};
  return fail(ErrorCode::usage, "--exec requires a command",
              "add it at the end, after --: --exec -- ./server");
}

}  // namespace

Result<void> check_words(const CLI::App& app, Arguments words) {
  const CLI::App* at = &app;
  bool values = false;
  for (std::size_t i = 0; i < words.size();) {
    const std::string& word = words[i];
    if (word == "--") break;  // what follows are values
    if (word.size() > 1 && word.front() == '-') {
      auto taken = OptionWord(*at, words.subspan(i)).check();
      if (!taken) return with_line(std::move(taken.error()), *at, words, i);
      i += *taken;
      continue;
    }
    const auto parts = values ? std::vector<const CLI::App*>() : parts_of(*at);
    // Of a command that also runs without a part, any other word is a value.
    values = values || (at != &app && at->get_require_subcommand_min() == 0 &&
                        std::ranges::find(parts, word, &CLI::App::get_name) == parts.end());
    if (values) {
      if (auto right = check_process(*at, words, i); !right) return right;
      ++i;
      continue;  // a value
    }
    const auto part = std::ranges::find(parts, word, &CLI::App::get_name);
    if (part == parts.end()) {
      Error error = no_such_command(*at, word).value();
      return with_line(std::move(error), *at, words, i);
    }
    ++i;
    at = *part;
  }
  return check_exec(words);
}

Error usage_error(const CLI::App& app, const CLI::ParseError& error) {
  if (const auto given = app.get_subcommands(); !given.empty())
    return usage_error(*given.front(), error);
  std::string message = error.what();
  if (const auto* invalid = dynamic_cast<const OptionError*>(&error))
    return {ErrorCode::usage, message, invalid->error.remedy};
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !parts_of(app).empty())
    return wrong(app, prefix(app) + "missing command", std::nullopt, "lists the commands").value();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)
    message = fmt::format("unexpected argument {}", fmt::join(app.remaining(), " "));
  if (const std::size_t end = message.find(": At Most 1 required");  // as CLI11 words it
      dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && end != message.npos)
    message = message.substr(0, end) + " is given more than once";
  return wrong(app, prefix(app) + message, std::nullopt, "lists the arguments").value();
}

}  // namespace vitrine::cli
