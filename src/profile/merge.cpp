#include "profile/merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/limits.hpp"
#include "profile/encode.hpp"

namespace vitrine::profile {
namespace {

/// The place of `value` in `table`, where `known` has all of them.
template <class T>
Index place_of(std::map<T, Index>& known, std::vector<T>& table, T value) {
  const auto next = static_cast<Index>(table.size());
  const auto [at, added] = known.try_emplace(value, next);
  if (added) table.push_back(std::move(value));
  return at->second;
}

/// `index` of one profile's table in the merged one, where `places` has where its entries went.
Index moved(Index index, const std::vector<Index>& places) {
  return index < places.size() ? places[index] : none;
}

}  // namespace

Result<void> Merge::add(const Profile& profile) {
  std::vector<Index> mappings, processes, functions, locations, stacks, label_sets, links;
  std::vector<Address> shifts;  // of the addresses in each mapping
  for (const Mapping& mapping : profile.mappings) {
    const auto next = static_cast<Index>(merged_.mappings.size());
    // A file without a build ID or path is another in each profile: its addresses may not move.
    const bool is_known = !mapping.build_id.empty() || !mapping.file.empty();
    const MappingKey key{mapping.limit - mapping.start, mapping.file_offset,
                         !is_known                  ? fmt::format("\n{:x} {}", mapping.start, next)
                         : mapping.build_id.empty() ? '\n' + mapping.file
                                                    : mapping.build_id};
    const auto [known, added] = mappings_.try_emplace(key, next);
    if (added) merged_.mappings.push_back(mapping);
    mappings.push_back(known->second);
    shifts.push_back(merged_.mappings[known->second].start - mapping.start);
  }
  for (const Process& process : profile.processes)
    processes.push_back(place_of(processes_, merged_.processes, process));
  for (const Function& function : profile.functions)
    functions.push_back(place_of(functions_, merged_.functions, function));
  for (Location location : profile.locations) {
    if (location.mapping < shifts.size()) location.address += shifts[location.mapping];
    location.mapping = moved(location.mapping, mappings);
    for (Line& line : location.lines) line.function = moved(line.function, functions);
    locations.push_back(place_of(locations_, merged_.locations, std::move(location)));
  }
  for (Stack stack : profile.stacks) {
    for (Index& location : stack.locations) location = moved(location, locations);
    stacks.push_back(place_of(stacks_, merged_.stacks, std::move(stack)));
  }
  for (const LabelSet& set : profile.label_sets)
    label_sets.push_back(place_of(label_sets_, merged_.label_sets, set));
  for (const Link& link : profile.links) links.push_back(place_of(links_, merged_.links, link));
  const auto check = [](std::size_t size, std::size_t most, const char* what) -> Result<void> {
    if (size <= most) return {};
    return fail(ErrorCode::limit, fmt::format("the profiles have more than {} {}", most, what),
                "merge fewer of them");
  };
  TRY(check(merged_.samples.size() + profile.samples.size(), limits::profile_samples, "samples"));
  TRY(check(merged_.stacks.size(), limits::profile_stacks, "different stacks"));
  TRY(check(merged_.label_sets.size(), limits::profile_label_sets, "different sets of labels"));
  for (Sample sample : profile.samples) {
    sample.process = moved(sample.process, processes);
    sample.stack = moved(sample.stack, stacks);
    sample.labels = moved(sample.labels, label_sets);
    sample.link = moved(sample.link, links);
    merged_.samples.push_back(std::move(sample));
  }

  if (merged_.frequency != 0 && profile.frequency != 0 && merged_.frequency != profile.frequency)
    add_remark(merged_,
               "the merged profiles have different frequencies: their times add up, and their "
               "samples stand for different times");
  if (merged_.frequency == 0) merged_.frequency = profile.frequency;
  merged_.start_ns = any_ ? std::min(merged_.start_ns, profile.start_ns) : profile.start_ns;
  merged_.duration_ns += profile.duration_ns;
  any_ = true;
  for (const std::string& remark : remarks(profile)) add_remark(merged_, remark);
  return {};
}

Profile Merge::take() {
  Profile out = std::move(merged_);
  *this = {};
  return out;
}

Profile labelled(Profile profile, const std::string& key, const std::string& value) {
  for (LabelSet& set : profile.label_sets) {
    const auto at = std::ranges::lower_bound(set, key, {}, &Label::key);
    if (at != set.end() && at->key == key)
      at->value = value;
    else
      set.insert(at, {key, value});
  }
  const auto alone = static_cast<Index>(profile.label_sets.size());
  profile.label_sets.push_back({{key, value}});
  for (Sample& sample : profile.samples)
    if (sample.labels >= alone) sample.labels = alone;
  return profile;
}

}  // namespace vitrine::profile
