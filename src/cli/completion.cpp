#include "cli/completion.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/choices.hpp"

namespace vitrine::cli {
namespace {

/// What may stand where a word is wanted.
enum class Words { any, processes, files, processes_and_files, choices };

struct Value {
  Words words = Words::any;
  std::vector<std::string> choices;
};

struct Option {
  std::vector<std::string> names;  ///< with their dashes
  std::string description;
  bool takes_value = false;  ///< as the next word
  Value value;
};

/// A command of the tree, `vitrine` itself first.
struct Node {
  std::string path;  ///< "vitrine usdt header"
  std::string summary;
  std::vector<Option> options;
  std::vector<Node> parts;
  Value positional;
};

/// What the placeholder of a value says: "FILE.d", "pprof|otlp [pprof]", "TIME".
Value value_of(std::string_view placeholder) {
  if (placeholder.find("FILE") != std::string_view::npos ||
      placeholder.find("DIR") != std::string_view::npos)
    return {Words::files, {}};
  std::vector<std::string> choices = choices_of(placeholder);
  if (choices.empty()) return {};
  return {Words::choices, std::move(choices)};
}

Value positional_of(std::string_view name) {
  if (name.find("TARGET") != std::string_view::npos) return {Words::processes_and_files, {}};
  if (name.find("PID") != std::string_view::npos) return {Words::processes, {}};
  if (name.find("FILE") != std::string_view::npos || name.find("OBJECT") != std::string_view::npos)
    return {Words::files, {}};
  return {};
}

/// The first sentence, of one line: what a menu has room for.
std::string in_short(std::string text) {
  text = text.substr(0, std::min(text.find('\n'), text.find(": ")));
  // No quote of any shell, nor what zsh reads as its own.
  for (std::size_t at; (at = text.find('\'')) != std::string::npos;) text.replace(at, 1, "’");
  std::erase_if(text, [](char c) { return c == '[' || c == ']' || c == '`' || c == '"'; });
  return text;
}

Option option_of(const CLI::Option& from) {
  Option option;
  for (const std::string& name : from.get_snames()) option.names.push_back("-" + name);
  for (const std::string& name : from.get_lnames()) option.names.push_back("--" + name);
  option.description = in_short(from.get_description());
  const std::string& placeholder = from.get_option_text();
  option.takes_value = from.get_items_expected_max() > 0 && !placeholder.starts_with("[=");
  option.value = value_of(placeholder);
  return option;
}

Node tree_of(const CLI::App& app, const std::string& path) {
  Node node{path, in_short(app.get_description()), {}, {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // not for users
    if (!option->get_positional()) {
      node.options.push_back(option_of(*option));
    } else if (node.positional.words == Words::any) {
      node.positional = positional_of(option->get_name(true));
    }
  }
  for (const CLI::App* part : app.get_subcommands([](const CLI::App*) { return true; }))
    node.parts.push_back(tree_of(*part, path + " " + part->get_name()));
  return node;
}

void flatten(const Node& node, std::vector<const Node*>& into) {
  into.push_back(&node);
  for (const Node& part : node.parts) flatten(part, into);
}

std::string name_of(const Node& node) {
  return node.path.substr(node.path.rfind(' ') + 1);
}

std::string names_of_parts(const Node& node) {
  std::vector<std::string> names;
  for (const Node& part : node.parts) names.push_back(name_of(part));
  return fmt::format("{}", fmt::join(names, " "));
}

// ---- bash ----

std::string bash_words(const Value& value) {
  switch (value.words) {
    case Words::choices:
      return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$word\"))",
                         fmt::join(value.choices, " "));
    case Words::files:
      return "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$word\")";
    case Words::processes:
      return "COMPREPLY=($(compgen -W \"$(cd /proc && echo [0-9]*)\" -- \"$word\"))";
    case Words::processes_and_files:
      return "mapfile -t COMPREPLY < <(compgen -W \"$(cd /proc && echo [0-9]*)\" -- \"$word\"; "
             "compgen -f -- \"$word\")";
    case Words::any:
      break;
  }
  return "COMPREPLY=()";
}

std::string bash(const std::vector<const Node*>& nodes) {
  std::string out =
      "# bash completion of vitrine; made by `vitrine --completion bash`\n"
      "_vitrine() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local path=vitrine at\n"
      "  for ((at = 1; at < COMP_CWORD; ++at)); do\n"
      "    case \"$path ${COMP_WORDS[at]}\" in\n";
  std::vector<std::string> paths;
  for (const Node* node : nodes)
    if (node->path != "vitrine") paths.push_back('\'' + node->path + '\'');
  out += fmt::format("      {}) path+=\" ${{COMP_WORDS[at]}}\" ;;\n", fmt::join(paths, "|"));
  out +=
      "      *' --') COMPREPLY=($(compgen -c -- \"$word\")); return ;;\n"
      "    esac\n  done\n  case \"$path $before\" in\n";
  for (const Node* node : nodes)
    for (const Option& option : node->options)
      if (option.takes_value)
        for (const std::string& name : option.names)
          out += fmt::format("    '{} {}') {}; return ;;\n", node->path, name,
                             bash_words(option.value));
  out += "  esac\n  case \"$path\" in\n";
  for (const Node* node : nodes) {
    std::vector<std::string> options;
    for (const Option& option : node->options)
      options.insert(options.end(), option.names.begin(), option.names.end());
    const std::string otherwise =
        node->parts.empty()
            ? bash_words(node->positional)
            : fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$word\"))", names_of_parts(*node));
    out += fmt::format(
        "    '{}')\n      if [[ $word == -* ]]; then COMPREPLY=($(compgen -W '{}' -- \"$word\"))\n"
        "      else {}; fi ;;\n",
        node->path, fmt::join(options, " "), otherwise);
  }
  return out + "  esac\n}\ncomplete -F _vitrine vitrine\n";
}

// ---- zsh ----

std::string zsh_action(const Value& value) {
  switch (value.words) {
    case Words::choices:
      return fmt::format("({})", fmt::join(value.choices, " "));
    case Words::files:
      return "_files";
    case Words::processes:
      return "_pids";
    case Words::processes_and_files:
      return "{_alternative \"pids:process:_pids\" \"files:file:_files\"}";
    case Words::any:
      break;
  }
  return " ";
}

std::string zsh_function(const Node& node) {
  std::string name = "_" + node.path;
  std::replace(name.begin(), name.end(), ' ', '_');
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string zsh_one(const Node& node) {
  std::string out = fmt::format("{}() {{\n", zsh_function(node));
  if (!node.parts.empty()) out += "  local state line\n";
  out += "  _arguments -C";
  for (const Option& option : node.options)
    for (const std::string& name : option.names)
      out += fmt::format(" \\\n    '*{}[{}]{}'", name, option.description,
                         option.takes_value ? ":value:" + zsh_action(option.value) : "");
  if (node.parts.empty())
    return out + fmt::format(" \\\n    '*:argument:{}'\n}}\n", zsh_action(node.positional));
  out += " \\\n    '1:command:->command' '*::argument:->argument'\n  case $state in\n";
  out += "    command) local -a commands; commands=(";
  for (const Node& part : node.parts)
    out += fmt::format("\n      '{}:{}'", name_of(part), part.summary);
  out += ")\n      _describe command commands ;;\n    argument) case $line[1] in\n";
  for (const Node& part : node.parts)
    out += fmt::format("      {}) {} ;;\n", name_of(part), zsh_function(part));
  return out + "    esac ;;\n  esac\n}\n";
}

std::string zsh(const std::vector<const Node*>& nodes) {
  std::string out = "#compdef vitrine\n# made by `vitrine --completion zsh`\n";
  for (const Node* node : nodes) out += zsh_one(*node);
  // Loaded by compinit it is called by its file's name; sourced by hand it registers itself.
  return out +
         "if [ \"$funcstack[1]\" = _vitrine ]; then _vitrine \"$@\"; else compdef _vitrine "
         "vitrine; fi\n";
}

// ---- fish ----

std::string fish_words(const Value& value) {
  switch (value.words) {
    case Words::choices:
      return fmt::format(" -a '{}'", fmt::join(value.choices, " "));
    case Words::files:
      return " -F";
    case Words::processes:
      return " -a '(__fish_complete_pids)'";
    case Words::processes_and_files:
      return " -F -a '(__fish_complete_pids)'";
    case Words::any:
      break;
  }
  return "";
}

/// Holds where the command line is within `node`, and no deeper.
std::string fish_condition(const Node& node) {
  std::string condition;
  const std::string words = node.path.substr(std::min(node.path.size(), std::size_t{8}));
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find(' ', at), words.size());
    condition += fmt::format("; and __fish_seen_subcommand_from {}", words.substr(at, end - at));
    at = end + 1;
  }
  if (!node.parts.empty())
    condition += "; and not __fish_seen_subcommand_from " + names_of_parts(node);
  return condition.empty() ? "" : condition.substr(6);
}

std::string fish(const std::vector<const Node*>& nodes) {
  std::string out =
      "# fish completion of vitrine; made by `vitrine --completion fish`\ncomplete -c vitrine -f\n";
  for (const Node* node : nodes) {
    const std::string begin = fmt::format("complete -c vitrine -n '{}'", fish_condition(*node));
    for (const Node& part : node->parts)
      out += fmt::format("{} -a '{}' -d '{}'\n", begin, name_of(part), part.summary);
    if (node->parts.empty() && node->positional.words != Words::any)
      out += begin + fish_words(node->positional) + '\n';
    for (const Option& option : node->options) {
      out += begin;
      for (const std::string& name : option.names)
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      // -x forbids the files that -F asks for.
      if (option.takes_value)
        out += (option.value.words == Words::files ? " -r" : " -x") + fish_words(option.value);
      out += fmt::format(" -d '{}'\n", option.description);
    }
  }
  return out;
}

}  // namespace

std::string completion_script(std::string_view shell, const CLI::App& app) {
  const Node tree = tree_of(app, "vitrine");
  std::vector<const Node*> nodes;
  flatten(tree, nodes);
  return shell == "bash" ? bash(nodes) : shell == "zsh" ? zsh(nodes) : fish(nodes);
}

}  // namespace vitrine::cli
