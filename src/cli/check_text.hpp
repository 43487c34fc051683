// Checks for people: what fails first, what to do about it beside it.
#pragma once

#include <string>

#include "check/check.hpp"
#include "cli/text.hpp"

namespace vitrine::cli {

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
