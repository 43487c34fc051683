#include "cli/shell/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/output/live.hpp"
#include "cli/output/text.hpp"

namespace vitrine::cli {

int report(const Error& error) {
  fmt::print(stderr, "vitrine: {}\n", printable(error.message));
  std::string_view rest = error.remedy;  // of several lines where it points at a place in a text
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    fmt::print(stderr, "  {}\n", printable(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  // What the target does can interrupt a reading, too: only the user's interrupt is told as one.
  if (error.code == ErrorCode::interrupted && !interrupted()) return exit_failed;
  return exit_code(error);
}

void note(std::string_view text) {
  fmt::print(stderr, "vitrine: note: {}\n", printable(text));
}

}  // namespace vitrine::cli
