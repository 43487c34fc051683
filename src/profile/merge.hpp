// Merging profiles: of one program at several times, of several processes, of several machines.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.hpp"
#include "profile/profile.hpp"

namespace vitrine::profile {

/// Adds up profiles into one. A mapping of the same file is one, wherever it was in memory, and its
/// locations move with it. The result starts with the first of them; its duration is the sum of
/// theirs, as pprof has it.
class Merge {
 public:
  /// Errors: limit (more samples, stacks or label sets than a profile may have).
  Result<void> add(const Profile& profile);
  /// Leaves nothing.
  Profile take();

 private:
  /// Size, offset, and what the file is.
  using MappingKey = std::tuple<std::uint64_t, std::uint64_t, std::string>;

  Profile merged_;
  bool any_ = false;
  std::map<MappingKey, Index> mappings_;
  std::map<Process, Index> processes_;
  std::map<Function, Index> functions_;
  std::map<Location, Index> locations_;
  std::map<Stack, Index> stacks_;
  std::map<LabelSet, Index> label_sets_;
  std::map<Link, Index> links_;
};

/// With one more label on each sample, in place of one that has the key.
Profile labelled(Profile profile, const std::string& key, const std::string& value);

}  // namespace vitrine::profile
