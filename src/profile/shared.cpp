#include "profile/shared.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/utf8.hpp"
#include "profile/select.hpp"

namespace vitrine::profile {

Measures measures_of(const Profile& profile) {
  Measures measures{.on_cpu = profile.frequency > 0, .off_cpu = profile.frequency == 0};
  for (const Sample& sample : profile.samples)
    (sample.measure == Measure::on_cpu ? measures.on_cpu : measures.off_cpu) = true;
  return measures;
}

std::string_view end_mark(StackEnd end) {
  switch (end) {
    case StackEnd::outermost:
      return "";
    case StackEnd::truncated:
      return "[truncated]";
    case StackEnd::no_rule:
    case StackEnd::bad:
      return "[incomplete]";
  }
  return "";
}

std::vector<std::string_view> frame_names(const Profile& profile, const Location& location,
                                          std::string& scratch) {
  std::vector<std::string_view> names;
  for (const Line& line : location.lines)
    if (const Function* function = entry(profile.functions, line.function))
      names.emplace_back(function->name.empty() ? function->system_name : function->name);
  if (!names.empty()) return names;
  const Mapping* mapping = entry(profile.mappings, location.mapping);
  std::string_view file = mapping == nullptr ? "" : std::string_view(mapping->file);
  file = file.substr(file.rfind('/') + 1);  // npos + 1 is 0
  if (file.empty()) return {"[unknown]"};
  if (file.front() == '[') return {file};
  scratch = fmt::format("[{}]", file);
  return {scratch};
}

std::vector<std::string> group_frames(const Profile& profile, const Sample& sample,
                                      const std::vector<std::string>& keys) {
  std::vector<std::string> frames;
  for (const std::string& key : keys)
    frames.push_back(key + '=' + value_of(profile, sample, key).value_or("(none)"));
  return frames;
}

std::vector<std::string> remarks(const Profile& profile) {
  std::vector<std::string> out;
  const auto count = [&](std::uint64_t number, std::string_view what) {
    if (number > 0) out.push_back(fmt::format("{} {}", number, what));
  };
  count(profile.losses.events, "samples were lost: the buffer was full");
  count(profile.losses.truncated_stacks, "stacks are incomplete, and are marked");
  count(profile.losses.truncated_labels, "samples have labels that were cut or omitted");
  count(profile.losses.unread_labels, "samples have no labels because they could not be read");
  out.insert(out.end(), profile.problems.begin(), profile.problems.end());
  return out;
}

std::string CleanText::operator()(std::string_view bytes) {
  if (is_utf8(bytes)) return std::string(bytes);
  ++replaced_;
  return replaced_utf8(bytes);
}

constexpr std::size_t most_renamed = 32;  // told one by one

ExportedKeys::ExportedKeys(const Profile& profile, std::string_view label_prefix,
                           std::set<std::string, std::less<>> reserved,
                           std::string_view reserved_prefix, CleanText& clean) {
  std::set<std::string> keys;
  for (const LabelSet& set : profile.label_sets)
    for (const Label& label : set) keys.insert(label.key);
  std::map<std::string, std::uint64_t, std::less<>> numbers;
  std::uint64_t more = 0;
  for (const std::string& key : keys) {
    std::string name = std::string(label_prefix) + clean(key);
    const auto may_not_stay = [&] {
      return name.empty() || reserved.contains(name) ||
             (!reserved_prefix.empty() && name.starts_with(reserved_prefix));
    };
    if (may_not_stay()) {
      name.insert(0, "label.");
      // Numbered per name, as thousands of keys may look alike once they are UTF-8.
      const std::string base = name;
      for (std::uint64_t& number = numbers[base]; may_not_stay();)
        name = fmt::format("{}.{}", base, ++number);
      if (renamed_.size() < most_renamed)
        renamed_.push_back(fmt::format("the label '{}' is renamed to '{}' here", key, name));
      else
        ++more;
    }
    reserved.insert(name);
    names_.emplace(key, std::move(name));
  }
  if (more != 0) renamed_.push_back(fmt::format("{} more labels are renamed", more));
}

std::int64_t as_signed(std::uint64_t ns) {
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min(ns, most));
}

std::int64_t period_ns(const Profile& profile) {
  return profile.frequency == 0 ? 0 : 1'000'000'000 / profile.frequency;
}

}  // namespace vitrine::profile
