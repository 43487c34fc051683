// Checks as NDJSON, as SARIF 2.1.0, and as text.
#pragma once

#include <string>
#include <vector>

#include "check/check.hpp"
#include "cli/output/json.hpp"
#include "cli/output/text.hpp"

namespace vitrine::cli {

/// One rule and subject: {"rule","target","subject" (path; null: the process), "pid" of a process,
/// "verdict":"holds|fails|does-not-apply|undecided","required":bool,"profiles":[…],"text","seen",
/// "source", and when there are such "remedy","readers"; of rules about readings of threads
/// "threads","readings","violations", and "example" when there is one}.
Json to_json(const check::Report& report, const check::Finding& finding);

/// {"rule","required","profiles","text","source","remedy","readers"}.
Json to_json(const check::Requirement& rule);

/// Reports as one SARIF log, which succeeded if nothing was `refused`, a target or a file of one.
/// `verbose`: what holds and what does not apply, too.
Json to_sarif(const std::vector<check::Report>& reports, const std::vector<Error>& refused,
              const std::string& version, bool verbose);

// Checks for people: what fails first, what to do about it beside it.

/// What counts in a report. With `strict`, advice that is not followed fails too.
struct CheckCounts {
  std::size_t failed = 0, advised = 0, undecided = 0, held = 0;
};
bool is_failure(const check::Finding& finding, bool strict);
CheckCounts count(const check::Report& report, bool strict);

/// A report, by file and process. `verbose`: what holds and what does not apply, too.
std::string check_text(const check::Report& report, bool strict, bool verbose, const Style& style);

/// All rules; as a document: a Markdown table.
std::string rules_text(const Style& style);
std::string rules_markdown();

}  // namespace vitrine::cli
