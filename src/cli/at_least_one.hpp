// A whole number from 1 on, as the value of an option.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace vitrine::cli {

/// For CLI::Option::check.
inline std::string at_least_one(const std::string& text) {
  const bool whole = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (whole && text.find_first_not_of('0') != std::string::npos) return {};
  return "expected a positive integer, not '" + text + "'";
}

}  // namespace vitrine::cli
