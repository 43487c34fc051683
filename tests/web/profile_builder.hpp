// Makes a profile sample by sample, from names.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "profile/profile.hpp"

namespace vitrine::web_test {

/// "name", "name#LINE" or "name@module"; behind it '^' marks a function inlined into the one before.
using Frames = std::vector<std::string>;

class ProfileBuilder {
 public:
  explicit ProfileBuilder(std::string program) : program_(std::move(program)) {}

  /// Outermost first.
  profile::Index stack(const Frames& frames, profile::StackEnd end = profile::StackEnd::outermost);
  profile::Index labels(profile::LabelSet set);
  profile::Index process(std::uint32_t pid, std::string_view command);
  profile::Index link(std::uint64_t trace, std::uint64_t span);

  profile::Profile profile;

 private:
  profile::Index function(std::string_view name, std::string_view module, bool has_line);
  profile::Index mapping(std::string_view module);

  std::string program_;
  std::map<std::string, profile::Index, std::less<>> mappings_;
  std::map<std::pair<std::string, std::string>, profile::Index> functions_;
  std::map<profile::Stack, profile::Index> stacks_;
  std::map<std::string, profile::Index> locations_;
  std::map<profile::LabelSet, profile::Index> label_sets_;
  std::map<profile::Link, profile::Index> links_;
};

}  // namespace vitrine::web_test
