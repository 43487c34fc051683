#include "cli/uses.hpp"

#include <fmt/format.h>
#include <sys/auxv.h>

#include <climits>
#include <cstdlib>

#include "cli/confinement.hpp"

namespace vitrine::cli {
namespace {

using confine::Capabilities;
using Commands = std::vector<std::unique_ptr<Command>>;
using Support = observe::Finding::Verdict;

std::string or_none(Capabilities set) {
  return set.empty() ? "none" : set.text();
}

/// With what kernels before 6.6 want for uprobes.
Capabilities here(Capabilities set, const Use& use, bool has_uprobe_multi) {
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

}  // namespace vitrine::cli
