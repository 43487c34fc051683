#include "cli/report.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "cli/exit_code.hpp"
#include "cli/text.hpp"

namespace vitrine::cli {

int report(const Error& error) {
  fmt::print(stderr, "vitrine: {}\n", printable(error.message));
  if (!error.remedy.empty()) fmt::print(stderr, "  {}\n", printable(error.remedy));
  return exit_code(error);
}

void note(std::string_view text) {
  fmt::print(stderr, "vitrine: note: {}\n", printable(text));
}

}  // namespace vitrine::cli
