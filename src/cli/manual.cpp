#include "cli/manual.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/uses.hpp"

namespace vitrine::cli {
namespace {

constexpr std::size_t columns = 79;

/// Fills `text` to lines of at most `columns`, each with `indent` spaces before it.
std::string fill(const std::string& text, std::size_t indent) {
  std::string out(indent, ' ');
  std::size_t column = indent;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (column > indent && column + 1 + word.size() > columns) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    at = end + 1;
  }
  return out + '\n';
}

std::string option_head(const CLI::Option& option) {
  std::string head = option.get_positional() ? option.get_name(true) : option.get_name(false, true);
  for (std::size_t comma = head.find(','); comma != std::string::npos;
       comma = head.find(',', comma + 1))
    head.insert(comma + 1, " ");
  const std::string& value = option.get_option_text();
  if (value.empty() || value == " ") return head;
  return head + (value.front() == '[' || value.front() == '.' ? "" : " ") + value;
}

/// Help as the manual page has it, in 80 columns.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool) const override {
    constexpr std::size_t indent = 8;
    return "  " + option_head(*option) + '\n' + fill(option->get_description(), indent);
  }
  std::string make_footer(const CLI::App* app) const override { return app->get_footer(); }
};

/// Text as roff takes it literally: no escapes, no leading control characters, real hyphens.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      out += std::string("\\&") + c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string header(const std::string& page, const std::string& summary) {
  return fmt::format(".TH {} 1 \"2026-11-21\" \"vitrine\" \"User Commands\"\n.SH NAME\n{} \\- {}\n",
                     roff(page), roff(page), roff(summary));
}

std::string exit_status() {
  return ".SH EXIT STATUS\n"
         ".TP\n0\nDone.\n.TP\n1\nThe work failed.\n.TP\n2\nWrong usage.\n.TP\n3\nNot permitted; "
         "the "
         "message names the missing capability.\n.TP\n4\nNo such process or file.\n.TP\n130\n"
         "Interrupted by the user, after finishing cleanly.\n";
}

std::string see_also(const std::vector<std::string>& pages) {
  std::string out = ".SH SEE ALSO\n";
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const std::size_t paren = pages[i].find('(');
    const std::string name =
        paren == std::string::npos ? "vitrine-" + pages[i] : pages[i].substr(0, paren);
    const std::string section = paren == std::string::npos ? "(1)" : pages[i].substr(paren);
    out += fmt::format(".BR {} {}{}\n", roff(name), section, i + 1 < pages.size() ? "," : "");
  }
  return out;
}

}  // namespace

std::string page_name(const Manual& manual) {
  std::string out = manual.name;
  std::replace(out.begin(), out.end(), ' ', '-');
  return out;
}

std::string help_footer(const Manual& manual) {
  std::string out;
  for (const std::string& paragraph : manual.paragraphs) out += '\n' + fill(paragraph, 0);
  if (!manual.examples.empty()) out += "\nExamples:\n";
  for (const Example& example : manual.examples)
    out += "  " + example.line + '\n' + fill(example.shows, 6);
  out += fmt::format("\nman vitrine-{} has the same, and the exit codes.\n", page_name(manual));
  return out;
}

std::shared_ptr<CLI::FormatterBase> help_formatter() {
  return std::make_shared<HelpFormatter>();
}

std::string man_page(const Command& command, const CLI::App& app) {
  const Manual manual = command.manual();
  std::string out = header("vitrine-" + page_name(manual), manual.summary);
  out += fmt::format(".SH SYNOPSIS\n.B vitrine {}\n", roff(manual.name));
  std::string positionals;
  std::string options;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // not for users
    const std::string entry = fmt::format(".TP\n.B {}\n{}\n", roff(option_head(*option)),
                                          roff(option->get_description()));
    if (option->get_positional()) {
      out += fmt::format(".I {}{}\n", roff(option->get_name(true)),
                         option->get_items_expected_max() > 1 ? " ..." : "");
      positionals += entry;
    } else {
      options += entry;
    }
  }
  const auto parts = app.get_subcommands([](const CLI::App*) { return true; });
  out += parts.empty() ? ".RI [ options ]\n" : ".I COMMAND\n.RI [ arguments ]\n";
  out += ".SH DESCRIPTION\n";
  for (const std::string& paragraph : manual.paragraphs)
    out += (&paragraph == manual.paragraphs.data() ? "" : ".PP\n") + roff(paragraph) + '\n';
  if (!parts.empty()) out += ".SH COMMANDS\n";
  for (const CLI::App* part : parts)
    out += fmt::format(".TP\n.B vitrine {} {}\n{}\n", roff(manual.name), roff(part->get_name()),
                       roff(part->get_description()));
  out += ".SH OPTIONS\n" + positionals + options;
  out += ".SH EXAMPLES\n";
  for (const Example& example : manual.examples)
    out += fmt::format(".TP\n.B {}\n{}\n", roff(example.line), roff(example.shows));
  return out + uses_roff(command.uses()) + exit_status() + see_also(manual.see_also);
}

std::string man_page(const std::vector<std::unique_ptr<Command>>& commands) {
  std::string out = header("vitrine", "read what processes put on display, from outside");
  out +=
      ".SH SYNOPSIS\n.B vitrine\n.I COMMAND\n.RI [ arguments ]\n"
      ".SH DESCRIPTION\n"
      "Finds and reads thread labels (Custom Labels ABI v0 and v1, the OpenTelemetry thread "
      "context, "
      "the Elastic record) and the process context in live processes, without their help and, by "
      "default, without stopping a thread; and the static probes of processes and files.\n.SH "
      "COMMANDS\n";
  std::vector<std::string> pages;
  for (const auto& command : commands) {
    const Manual manual = command->manual();
    out += fmt::format(".TP\n.B vitrine {}\n{}\n", roff(manual.name), roff(manual.summary));
    pages.push_back(page_name(manual));
  }
  return out + exit_status() + see_also(pages);
}

}  // namespace vitrine::cli
