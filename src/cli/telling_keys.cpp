#include "cli/telling_keys.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

namespace vitrine::cli {
namespace {

struct Values {
  double time = 0;
  std::size_t samples = 0;
  std::map<std::string_view, double> of;  // time by value
};

constexpr std::size_t few_samples = 20;  // of so few an id cannot be told from a name
constexpr double an_id = 0.5;            // different values a sample

/// Bits that the value tells of a sample which has it, by the part of the time that has it.
double score(const Values& values, double all) {
  if (values.samples > few_samples &&
      static_cast<double>(values.of.size()) > an_id * static_cast<double>(values.samples))
    return 0;
  double bits = 0;
  for (const auto& [value, time] : values.of)
    if (time > 0) bits -= time / values.time * std::log2(time / values.time);
  // A key with one value still tells it from samples without.
  return values.time / all * (bits + 0.1);
}

}  // namespace

std::vector<std::string> telling_keys(const profile::Profile& profile, std::size_t most) {
  std::map<std::string_view, Values> keys;
  double all = 0;
  for (const profile::Sample& sample : profile.samples) {
    const auto time = static_cast<double>(sample.value_ns);
    all += time;
    if (sample.labels == profile::none) continue;
    for (const profile::Label& label : profile.label_sets[sample.labels]) {
      Values& values = keys[label.key];
      values.time += time;
      ++values.samples;
      values.of[label.value] += time;
    }
  }
  std::vector<std::pair<double, std::string_view>> ranked;
  for (const auto& [key, values] : keys)
    if (const double points = score(values, all); points > 0) ranked.emplace_back(points, key);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> telling;
  for (const auto& [points, key] : ranked)
    if (telling.size() < most) telling.emplace_back(key);
  return telling;
}

}  // namespace vitrine::cli
