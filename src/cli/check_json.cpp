#include "cli/check_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "check/rules.hpp"
#include "cli/text.hpp"

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
  const Verdict verdict = finding.answer.verdict;
  std::string message = printable(finding.answer.seen);
  if (!finding.answer.remedy.empty()) message += ". Remedy: " + printable(finding.answer.remedy);
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
  out["verdict"] = check::name(finding.answer.verdict);
  out["required"] = finding.rule->weight == check::Weight::required;
  out["profiles"] = names(finding.rule->profiles);
  out["text"] = finding.rule->text;
  out["seen"] = json_bytes(finding.answer.seen);
  out["source"] = finding.rule->source;
  if (!finding.answer.remedy.empty()) out["remedy"] = json_bytes(finding.answer.remedy);
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
      const Verdict verdict = finding.answer.verdict;
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

}  // namespace vitrine::cli
