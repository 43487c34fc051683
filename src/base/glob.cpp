#include "base/glob.hpp"

#include <cstddef>

namespace vitrine {
namespace {

constexpr std::size_t none = std::string_view::npos;

/// Where the set that begins with the `[` at `at` ends (behind its `]`), or none. A `]` that comes
/// first is one of the set.
std::size_t set_end(std::string_view pattern, std::size_t at) {
  std::size_t first = at + 1;
  if (first < pattern.size() && pattern[first] == '!') ++first;
  const std::size_t close = pattern.find(']', first + 1);
  return close == none ? none : close + 1;
}

/// Whether `byte` is in the set `[…]`.
bool in_set(std::string_view set, char byte) {
  const auto code = static_cast<unsigned char>(byte);
  set = set.substr(1, set.size() - 2);
  const bool inverted = set.starts_with('!');
  if (inverted) set.remove_prefix(1);
  bool found = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    const auto low = static_cast<unsigned char>(set[i]);
    auto high = low;
    if (i + 2 < set.size() && set[i + 1] == '-') {
      high = static_cast<unsigned char>(set[i + 2]);
      i += 2;
    }
    found = found || (code >= low && code <= high);
  }
  return found != inverted;
}

/// Behind the part of `pattern` at `at` that describes `byte`; none when it does not.
std::size_t step(std::string_view pattern, std::size_t at, char byte) {
  if (at >= pattern.size()) return none;
  switch (pattern[at]) {
    case '?':
      return at + 1;
    case '[':
      if (const std::size_t end = set_end(pattern, at); end != none)
        return in_set(pattern.substr(at, end - at), byte) ? end : none;
      break;
    case '\\':
      if (at + 1 < pattern.size()) return pattern[at + 1] == byte ? at + 2 : none;
      break;
    default:
      break;
  }
  return pattern[at] == byte ? at + 1 : none;
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view text) {
  std::size_t at = 0;
  std::size_t in_text = 0;
  std::size_t star = none;  // behind the last `*`: only that one needs to be tried again
  std::size_t star_text = 0;
  while (in_text < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = ++at;
      star_text = in_text;
    } else if (const std::size_t next = step(pattern, at, text[in_text]); next != none) {
      at = next;
      ++in_text;
    } else if (star != none) {
      at = star;
      in_text = ++star_text;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

}  // namespace vitrine
