#include "cli/arguments.hpp"

#include <cctype>

#include "cli/duration.hpp"

namespace vitrine::cli {
namespace {

bool is_duration(const char* word) {
  return std::isdigit(static_cast<unsigned char>(*word)) != 0 && parse_duration(word).has_value();
}

}  // namespace

std::vector<std::string> words_of(int argc, const char* const* argv) {
  std::vector<std::string> words;
  bool exec = false;
  bool help = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    exec = exec || word == "--exec";
    if (i == 1 && word == "help") {
      help = true;
    } else if (exec && word == "--") {
      for (++i; i < argc; ++i) words.push_back(std::string("--exec-word=") + argv[i]);
    } else if (word == "--watch") {
      const bool value_follows = i + 1 < argc && is_duration(argv[i + 1]);
      words.push_back(std::string("--watch=") + (value_follows ? argv[++i] : "1s"));
    } else {
      words.push_back(word);
    }
  }
  if (help) words.emplace_back("--help");
  return words;
}

}  // namespace vitrine::cli
