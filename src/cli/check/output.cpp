#include "cli/check/output.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

#include "check/rule.hpp"
#include "cli/output/text.hpp"

namespace vitrine::cli {
namespace {

using check::Finding;
using check::Verdict;

Json names(check::Profiles profiles) {
  Json out = Json::array();
  for (const std::string_view name : profiles.names()) out.push_back(name);
  return out;
}

/// A path as a URI: SARIF has no other way to name a file.
std::string uri_of(std::string_view path) {
  std::string uri = path.starts_with('/') ? "file://" : "";
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri;
}

const char* kind_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::holds:
      return "pass";
    case Verdict::fails:
      return "fail";
    case Verdict::does_not_apply:
      return "notApplicable";
    case Verdict::undecided:
      return "open";
  }
  return "open";
}

const char* level_of(const check::Requirement& rule) {
  return rule.weight == check::Weight::required ? "error" : "warning";
}

Json sarif_rule(const check::Requirement& rule) {
  Json out{{"id", rule.id},
           {"shortDescription", {{"text", rule.text}}},
           {"help", {{"text", fmt::format("{}. Source: {}.", rule.remedy, rule.source)}}},
           {"defaultConfiguration", {{"level", level_of(rule)}}}};
  out["properties"] = {{"profiles", names(rule.profiles)}, {"source", rule.source}};
  if (!rule.readers.empty()) out["properties"]["readers"] = rule.readers;
  return out;
}

Json sarif_result(const check::Report& report, const Finding& finding, std::size_t index) {
  const Verdict verdict = finding.outcome.verdict;
  std::string message = printable(finding.outcome.seen);
  if (!finding.outcome.remedy.empty()) message += ". Remedy: " + printable(finding.outcome.remedy);
  Json out{{"ruleId", finding.rule->id},
           {"ruleIndex", index},
           {"kind", kind_of(verdict)},
           {"level", verdict == Verdict::fails ? level_of(*finding.rule) : "none"},
           {"message", {{"text", message}}}};
  Json location;
  // CI systems want a place within the file to show a result at: its beginning.
  static const Json beginning{
      {"startLine", 1}, {"startColumn", 1}, {"endLine", 1}, {"endColumn", 1}};
  if (!finding.subject.empty())
    location["physicalLocation"] = {{"artifactLocation", {{"uri", uri_of(finding.subject)}}},
                                    {"region", beginning}};
  if (report.pid != 0)
    location["logicalLocations"] = {{{"name", printable(report.target)}, {"kind", "process"}}};
  out["locations"] = Json::array({location});
  if (finding.readings)
    out["properties"] = {{"threads", finding.readings->threads},
                         {"readings", finding.readings->readings},
                         {"violations", finding.readings->violations}};
  return out;
}

}  // namespace

Json to_json(const check::Requirement& rule) {
  return {{"rule", rule.id},
          {"required", rule.weight == check::Weight::required},
          {"profiles", names(rule.profiles)},
          {"text", rule.text},
          {"source", rule.source},
          {"remedy", rule.remedy},
          {"readers", rule.readers}};
}

Json to_json(const check::Report& report, const Finding& finding) {
  Json out{{"rule", finding.rule->id}, {"target", json_bytes(report.target)}};
  out["subject"] = finding.subject.empty() ? Json(nullptr) : json_bytes(finding.subject);
  if (report.pid != 0) out["pid"] = report.pid;
  out["verdict"] = check::name(finding.outcome.verdict);
  out["required"] = finding.rule->weight == check::Weight::required;
  out["profiles"] = names(finding.rule->profiles);
  out["text"] = finding.rule->text;
  out["seen"] = json_bytes(finding.outcome.seen);
  out["source"] = finding.rule->source;
  if (!finding.outcome.remedy.empty()) out["remedy"] = json_bytes(finding.outcome.remedy);
  if (finding.fails() && !finding.rule->readers.empty()) out["readers"] = finding.rule->readers;
  if (finding.readings) {
    out["threads"] = finding.readings->threads;
    out["readings"] = finding.readings->readings;
    out["violations"] = finding.readings->violations;
    if (!finding.readings->example.empty()) out["example"] = json_bytes(finding.readings->example);
  }
  return out;
}

Json to_sarif(const std::vector<check::Report>& reports, const std::vector<Error>& refused,
              const std::string& version, bool verbose) {
  std::map<std::string_view, std::size_t> index;
  Json rules = Json::array();
  for (const check::Requirement* rule : check::all_requirements()) {
    index[rule->id] = rules.size();
    rules.push_back(sarif_rule(*rule));
  }
  Json results = Json::array(), notes = Json::array();
  bool all_looked_at = refused.empty();
  const auto notify = [&](const char* level, const std::string& text) {
    notes.push_back({{"level", level}, {"message", {{"text", printable(text)}}}});
  };
  for (const Error& error : refused) notify("error", error.message);
  for (const check::Report& report : reports) {
    for (const Finding& finding : report.findings) {
      const Verdict verdict = finding.outcome.verdict;
      if (verbose || verdict == Verdict::fails || verdict == Verdict::undecided)
        results.push_back(sarif_result(report, finding, index[finding.rule->id]));
    }
    for (const std::string& text : report.unread) notify("error", report.target + ": " + text);
    for (const std::string& text : report.notes) notify("note", report.target + ": " + text);
    all_looked_at = all_looked_at && report.unread.empty();
  }
  const Json driver{{"name", "vitrine"}, {"version", version}, {"rules", rules}};
  const Json invocation{{"executionSuccessful", all_looked_at},
                        {"toolExecutionNotifications", notes}};
  const Json run{{"tool", {{"driver", driver}}},
                 {"invocations", Json::array({invocation})},
                 {"results", results}};
  return {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
          {"version", "2.1.0"},
          {"runs", Json::array({run})}};
}

namespace {

using check::Finding;
using check::Requirement;
using check::Verdict;

constexpr std::size_t columns = 80;
constexpr std::size_t indent = 11;  // of what belongs to a rule, below its name

/// Words of `text` in lines of at most `columns`, each after `indent` spaces.
std::string wrapped(std::string_view text) {
  std::string out, line;
  const auto end_line = [&] {
    if (!line.empty()) out += std::string(indent, ' ') + line + '\n';
    line.clear();
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (!line.empty() && indent + width(line) + 1 + width(word) > columns) end_line();
    if (!line.empty()) line += ' ';
    line += word;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  end_line();
  return out;
}

/// How urgent: failures, advice, what is undecided, the rest.
int rank(const Finding& finding, bool strict) {
  if (is_failure(finding, strict)) return 0;
  if (finding.fails()) return 1;
  return finding.outcome.verdict == Verdict::undecided ? 2
         : finding.outcome.verdict == Verdict::holds   ? 3
                                                       : 4;
}

std::string verdict_word(const Finding& finding, bool strict, const Style& style) {
  switch (rank(finding, strict)) {
    case 0:
      return style.red("FAILS    ");
    case 1:
      return style.yellow("advice   ");
    case 2:
      return style.yellow("undecided");
    case 3:
      return style.green("holds    ");
    default:
      return style.dim("  –      ");
  }
}

std::string finding_text(const Finding& finding, bool strict, bool verbose, const Style& style) {
  const int urgency = rank(finding, strict);
  std::string out =
      fmt::format("  {} {}\n", verdict_word(finding, strict, style), style.bold(finding.rule->id));
  if (urgency <= 2 || verbose) out += wrapped(finding.rule->text);
  out += wrapped("found: " + printable(finding.outcome.seen));
  if (urgency > 2) return out;
  if (!finding.outcome.remedy.empty())
    out += wrapped("remedy: " + printable(finding.outcome.remedy));
  if (finding.fails() && !finding.rule->readers.empty())
    out += wrapped(fmt::format("readers affected: {}", finding.rule->readers));
  return out;
}

std::string plural(std::size_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string summary(const check::Report& report, bool strict, const Style& style) {
  const CheckCounts counts = count(report, strict);
  std::string text = counts.failed != 0
                         ? style.red(plural(counts.failed, "rule fails", "rules fail"))
                         : style.green("no rule fails");
  if (counts.advised != 0)
    text += fmt::format(", {}", plural(counts.advised, "piece of advice", "pieces of advice"));
  if (counts.undecided != 0) text += fmt::format(", {} undecided", counts.undecided);
  if (report.checked.empty())
    return fmt::format("{}: publishes nothing\n", style.bold(printable(report.target)));
  return fmt::format("{}: {}; {} hold ({})\n", style.bold(printable(report.target)), text,
                     counts.held, fmt::join(report.checked.names(), ", "));
}

std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '_' || c == '<') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

bool is_failure(const Finding& finding, bool strict) {
  return finding.fails() && (strict || finding.rule->weight == check::Weight::required);
}

CheckCounts count(const check::Report& report, bool strict) {
  CheckCounts counts;
  for (const Finding& one : report.findings) {
    if (is_failure(one, strict))
      ++counts.failed;
    else if (one.fails())
      ++counts.advised;
    else if (one.outcome.verdict == Verdict::undecided)
      ++counts.undecided;
    else if (one.outcome.verdict == Verdict::holds)
      ++counts.held;
  }
  return counts;
}

std::string check_text(const check::Report& report, bool strict, bool verbose, const Style& style) {
  std::string out = summary(report, strict, style);
  std::vector<const Finding*> shown;
  for (const Finding& one : report.findings)
    if (verbose || rank(one, strict) <= 2) shown.push_back(&one);
  // Subjects in the order of their worst finding; within one by urgency, else as the rules are.
  const auto worst = [&](const std::string& subject) {
    int least = 9;
    for (const Finding* one : shown)
      if (one->subject == subject) least = std::min(least, rank(*one, strict));
    return least;
  };
  std::vector<std::string> subjects;
  for (const Finding* one : shown)
    if (std::ranges::count(subjects, one->subject) == 0) subjects.push_back(one->subject);
  std::ranges::stable_sort(subjects, {}, worst);
  std::ranges::stable_sort(shown, {}, [&](const Finding* one) { return rank(*one, strict); });
  for (const std::string& subject : subjects) {
    const std::string heading = subject.empty() ? "the process itself" : printable(subject);
    if (report.pid != 0) out += fmt::format(" {}\n", style.cyan(heading));
    for (const Finding* one : shown)
      if (one->subject == subject) out += finding_text(*one, strict, verbose, style);
  }
  return out;
}

std::string rules_text(const Style& style) {
  std::string out;
  for (const Requirement* rule : check::all_requirements()) {
    out += fmt::format(
        "{}  {}\n", style.bold(rule->id),
        style.dim(fmt::format("{}; {}", fmt::join(rule->profiles.names(), ", "),
                              rule->weight == check::Weight::required ? "required" : "advised")));
    out += wrapped(rule->text);
  }
  return out;
}

std::string rules_markdown() {
  std::string out =
      "| rule | requirement | source | readers affected | remedy |\n| --- | --- | --- | --- | --- "
      "|\n";
  for (const Requirement* rule : check::all_requirements())
    out += fmt::format("| `{}`{} | {} | {} | {} | {} |\n", rule->id,
                       rule->weight == check::Weight::required ? "" : " (advice)", cell(rule->text),
                       cell(rule->source), cell(rule->readers), cell(rule->remedy));
  return out;
}

}  // namespace vitrine::cli
