#include "cli/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

namespace vitrine::cli {
namespace {

/// Three digits: 1.23, 12.3, 123.
std::string three_digits(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

}  // namespace

bool shows_utf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {  // the first that is set decides
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    std::string name(value);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return name.find("UTF-8") != name.npos || name.find("UTF8") != name.npos;
  }
  return false;
}

std::string duration_text(double ns, bool utf8) {
  const double size = std::abs(ns);
  if (size < 999.5) return fmt::format("{:.0f}ns", ns);
  if (size < 999.5e3) return three_digits(ns / 1e3) + (utf8 ? "µs" : "us");
  if (size < 999.5e6) return three_digits(ns / 1e6) + "ms";
  if (size < 99.95e9) return three_digits(ns / 1e9) + "s";
  const double minutes = std::trunc(ns / 60e9);
  return fmt::format("{:.0f}m{:02.0f}s", minutes, std::floor(std::abs(ns / 1e9 - minutes * 60)));
}

std::string number_text(const query::Number& number) {
  const auto* fraction = std::get_if<double>(&number);
  if (fraction == nullptr) return std::visit([](auto n) { return fmt::format("{}", n); }, number);
  if (!std::isfinite(*fraction) || std::abs(*fraction) >= 1e15)
    return fmt::format("{:.6g}", *fraction);
  std::string text = fmt::format("{:.3f}", *fraction);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  if (text == "0" && *fraction != 0) return fmt::format("{:.3g}", *fraction);
  return text;
}

}  // namespace vitrine::cli
