#include "cli/choices.hpp"

#include <algorithm>

namespace vitrine::cli {
namespace {

bool is_choice(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

}  // namespace

std::vector<std::string> choices_of(std::string_view placeholder) {
  const std::string_view words = placeholder.substr(0, placeholder.find(' '));
  if (words.find('|') == std::string_view::npos) return {};
  std::vector<std::string> choices;
  for (std::size_t at = 0; at <= words.size();) {
    const std::size_t end = std::min(words.find('|', at), words.size());
    if (!is_choice(words.substr(at, end - at))) return {};
    choices.emplace_back(words.substr(at, end - at));
    at = end + 1;
  }
  return choices;
}

}  // namespace vitrine::cli
