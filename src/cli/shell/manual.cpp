#include "cli/shell/manual.hpp"

#include <fmt/format.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "cli/shell/confinement.hpp"

namespace vitrine::cli {
namespace {

using sandbox::Capabilities;
using Commands = std::vector<std::unique_ptr<Command>>;
using Support = observe::Finding::Verdict;

std::string or_none(Capabilities set) {
  return set.empty() ? "none" : set.text();
}

/// With what kernels before 6.6 want for uprobes, and some for perf events.
Capabilities here(Capabilities set, const Use& use, bool has_uprobe_multi) {
  if (use.perf_events) set = set | sandbox::added_for_perf_events();
  return use.uprobes && !has_uprobe_multi ? set | capabilities::admin : set;
}

/// This program, as a shell takes it.
std::string own_path() {
  char path[PATH_MAX];
  return ::realpath("/proc/self/exe", path) == nullptr ? "vitrine" : path;
}

observe::Finding finding_of(const Use& use, Capabilities held, bool has_uprobe_multi) {
  const Capabilities own = here(use.own, use, has_uprobe_multi);
  const Capabilities others = here(use.others, use, has_uprobe_multi);
  observe::Finding finding{"commands", use.line, Support::yes, {}, {}};
  if (suffice(held, others)) return finding;
  finding.verdict = suffice(held, own) ? Support::partial : Support::no;
  finding.detail =
      finding.verdict == Support::partial ? "for your own processes" : "without: " + use.without;
  finding.remedy = others.without(held).text();
  return finding;
}

}  // namespace

std::string uses_markdown(const Commands& commands) {
  std::string out =
      "| command | for files, or your own processes | for processes of other users | without |\n| "
      "--- | --- | --- "
      "| --- |\n";
  for (const auto& command : commands)
    for (const Use& use : command->uses())
      out += fmt::format("| `{}` | {} | {} | {} |\n", use.line, or_none(use.own),
                         or_none(use.others), use.without);
  return out;
}

std::string uses_roff(const std::vector<Use>& uses) {
  std::string out;
  for (const Use& use : uses) {
    if (use.others.empty()) continue;
    if (out.empty()) out = ".SH CAPABILITIES\n";
    std::string line;
    for (const char c : use.line) line += c == '-' ? std::string("\\-") : std::string(1, c);
    out += fmt::format(".TP\n.B vitrine {}\n{} for processes of other users; {} for {}.\n", line,
                       use.others.text(), use.own.empty() ? "none" : use.own.text(), "your own");
    if (!use.without.empty()) out += fmt::format("Without: {}.\n", use.without);
  }
  if (!out.empty())
    out +=
        ".PP\nRoot has these capabilities;\n.BR setcap (8)\ngrants them to the command; see\n.BR "
        "vitrine-doctor "
        "(1).\nvitrine drops the capabilities it does not need, and filters its system calls "
        "by\n.BR seccomp "
        "(2);\nthe environment variable VITRINE_SECCOMP=off disables the filter.\n";
  return out;
}

std::vector<observe::Finding> uses_for(const Commands& commands, Capabilities held,
                                       bool has_uprobe_multi) {
  std::vector<observe::Finding> findings;
  for (const auto& command : commands)
    for (const Use& use : command->uses())
      findings.push_back(finding_of(use, held, has_uprobe_multi));
  return findings;
}

std::string enabling_line(const Commands& commands, Capabilities held, bool has_uprobe_multi) {
  Capabilities all;
  for (const auto& command : commands)
    for (const Use& use : command->uses()) all = all | here(use.others, use, has_uprobe_multi);
  if (suffice(held, all)) return {};
  // The release that brings its own loader (packaging/release): a loader with capabilities would give
  // them to any program.
  if (::getauxval(AT_BASE) == 0)
    return "run it with sudo; this release cannot be given capabilities, the Debian packages can";
  return fmt::format("sudo setcap {}=ep {}", all.setcap_text(), own_path());
}

namespace {

constexpr std::size_t page_columns = 79;

/// Fills `text` to lines of at most `columns`, each with `indent` spaces before it.
std::string fill(const std::string& text, std::size_t indent) {
  std::string out(indent, ' ');
  std::size_t column = indent;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (column > indent && column + 1 + word.size() > page_columns) {
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

/// A command line in lines of at most `columns`, each but the last with a backslash at its end, broken
/// before options.
std::string fold(const std::string& line, std::size_t indent) {
  std::string out;
  std::string_view rest = line;
  for (std::size_t margin = indent;; margin = indent + 4) {
    out += std::string(margin, ' ');
    const std::size_t room = page_columns - margin;
    const std::size_t end = rest.size() <= room ? rest.npos : rest.rfind(" -", room - 2);
    if (end == rest.npos || end == 0) return out + std::string(rest) + '\n';
    out += std::string(rest.substr(0, end)) + " \\\n";
    rest.remove_prefix(end + 1);
  }
}

std::string option_head(const CLI::Option& option) {
  std::string head = option.get_positional() ? option.get_name(true) : option.get_name(false, true);
  for (std::size_t comma = head.find(','); comma != std::string::npos;
       comma = head.find(',', comma + 1))
    head.insert(comma + 1, " ");
  // CLI11 adds the value of a flag that negates another one.
  constexpr std::string_view negated = "{false}";
  for (std::size_t at = head.find(negated); at != std::string::npos; at = head.find(negated))
    head.erase(at, negated.size());
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
  std::string make_subcommand(const CLI::App* sub) const override {
    constexpr std::size_t indent = 10;
    const std::string text = fill(sub->get_description(), indent);
    const std::string name = "  " + sub->get_name();
    return name.size() < indent ? name + text.substr(name.size()) : name + '\n' + text;
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
    } else if (c == '"') {  // which macros take for the ends of their arguments
      out += "\\(dq";
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

/// "vitrine-usdt-header"
std::string page_name(const Manual& manual) {
  std::string out = "vitrine-" + manual.name;
  std::replace(out.begin(), out.end(), ' ', '-');
  return out;
}

std::string exit_status() {
  return ".SH EXIT STATUS\n.TP\n0\nDone.\n.TP\n1\nThe command failed.\n.TP\n2\nInvalid "
         "usage.\n.TP\n3\nNot "
         "permitted; the message names the missing capability.\n.TP\n4\nNo such process or "
         "file.\n.TP\n130\nInterrupted by the user, after finishing cleanly.\n";
}

/// Pages as "perf(1)".
std::string see_also(const std::vector<std::string>& pages) {
  std::string out = ".SH SEE ALSO\n";
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const std::size_t paren = pages[i].find('(');
    out += fmt::format(".BR {} {}{}\n", roff(pages[i].substr(0, paren)), pages[i].substr(paren),
                       i + 1 < pages.size() ? "," : "");
  }
  return out;
}

/// What a page points to: what its command does, then the commands above and within it.
std::vector<std::string> related(Command& command) {
  const Manual manual = command.manual();
  std::vector<std::string> pages;
  const auto add = [&](const std::string& page) {
    if (std::ranges::count(pages, page) == 0) pages.push_back(page);
  };
  for (const std::string& other : manual.see_also)
    add(other.ends_with(')') ? other : "vitrine-" + other + "(1)");
  for (const Command* part : command.parts()) add(page_name(part->manual()) + "(1)");
  const std::size_t blank = manual.name.rfind(' ');
  add((blank == std::string::npos ? "vitrine" : "vitrine-" + manual.name.substr(0, blank)) + "(1)");
  return pages;
}

std::string man_page(Command& command, const CLI::App& app) {
  const Manual manual = command.manual();
  std::string out = header(page_name(manual), manual.summary);
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
  if (parts.empty() || command.runs_alone()) out += ".RI [ options ]\n";
  if (!parts.empty()) {
    if (command.runs_alone()) out += fmt::format(".br\n.B vitrine {}\n", roff(manual.name));
    out += ".I COMMAND\n.RI [ arguments ]\n";
  }
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
  return out + uses_roff(command.uses()) + exit_status() + see_also(related(command));
}

std::string man_page(const std::vector<std::unique_ptr<Command>>& commands) {
  std::string out =
      header("vitrine", "read the labels, contexts and probes of processes from outside");
  out +=
      ".SH SYNOPSIS\n.B vitrine\n.I COMMAND\n.RI [ arguments ]\n.SH DESCRIPTION\nFinds and reads "
      "thread labels "
      "(Custom Labels ABI v0 and v1, the OpenTelemetry thread context, the Elastic record) and the "
      "process context "
      "in live processes, and the static probes of processes and files. It needs no cooperation "
      "from the processes "
      "and, by default, stops no thread.\n.SH COMMANDS\n";
  std::vector<std::string> pages;
  for (const auto& command : commands) {
    const Manual manual = command->manual();
    out += fmt::format(".TP\n.B vitrine {}\n{}\n", roff(manual.name), roff(manual.summary));
    pages.push_back(page_name(manual) + "(1)");
  }
  return out + exit_status() + see_also(pages);
}

Result<void> write_page(const std::string& directory, const std::string& name,
                        const std::string& text) {
  const std::string path = directory + '/' + name + ".1";
  std::ofstream file(path);
  if (file << text << std::flush) return {};
  return fail(ErrorCode::failed, path + " cannot be written: " + std::strerror(errno));
}

}  // namespace

std::string help_footer(const Manual& manual) {
  std::string out;
  for (const std::string& paragraph : manual.paragraphs) out += '\n' + fill(paragraph, 0);
  if (!manual.examples.empty()) out += "\nExamples:\n";
  for (const Example& example : manual.examples)
    out += fold(example.line, 2) + fill(example.shows, 6);
  out += fmt::format("\nman {} has the same text, and the exit codes.\n", page_name(manual));
  return out;
}

std::shared_ptr<CLI::FormatterBase> help_formatter() {
  return std::make_shared<HelpFormatter>();
}

Result<void> write_man_pages(const std::string& directory,
                             const std::vector<std::unique_ptr<Command>>& top,
                             const std::vector<DefinedCommand>& all) {
  for (const auto& [command, app] : all) {
    TRY(write_page(directory, page_name(command->manual()), man_page(*command, *app)));
  }
  return write_page(directory, "vitrine", man_page(top));
}

}  // namespace vitrine::cli
