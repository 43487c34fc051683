// Folded stacks: "root;…;leaf COUNT", as flamegraph.pl, inferno and speedscope read them.
//
// A line has one number and no unit. On-CPU it is samples, as stackcollapse-perf.pl writes them;
// off-CPU it is microseconds, as offcputime -f of bcc does. Where both were measured, both are
// microseconds, below an outermost frame "on-CPU" or "off-CPU": the two would not add up otherwise.
#include <algorithm>
#include <map>

#include "base/utf8.hpp"
#include "profile/encode.hpp"
#include "profile/shared.hpp"

namespace vitrine::profile {
namespace {

/// A frame may not hold what separates frames, nor what ends a line or steers a terminal: ':' for
/// ';' as stackcollapse-perf.pl has it, a blank for the rest.
std::string frame(std::string_view name, CleanText& clean) {
  std::string out = without_steering(clean(name));
  std::replace(out.begin(), out.end(), ';', ':');
  return out;
}

/// From the root to the leaf, each frame followed by ';'.
std::string folded_stack(const Profile& profile, const Stack& stack, CleanText& clean) {
  std::string out;
  if (const auto mark = end_mark(stack.end); !mark.empty()) out.append(mark) += ';';
  std::string scratch;
  for (auto at = stack.locations.rbegin(); at != stack.locations.rend(); ++at) {
    const Location* location = entry(profile.locations, *at);
    if (location == nullptr) continue;
    const auto names = frame_names(profile, *location, scratch);
    for (auto name = names.rbegin(); name != names.rend(); ++name) out += frame(*name, clean) + ';';
  }
  return out;
}

}  // namespace

Result<std::string> encode_folded(const Profile& profile, const EncodeOptions& options) {
  const Measures measures = measures_of(profile);
  const bool both = measures.on_cpu && measures.off_cpu;
  CleanText clean;
  std::vector<std::string> stacks(profile.stacks.size());  // each made when first met
  std::map<std::string, std::uint64_t> totals;             // samples, or nanoseconds
  for (const Sample& sample : profile.samples) {
    const bool on = sample.measure == Measure::on_cpu;
    std::string line = !both ? "" : on ? "on-CPU;" : "off-CPU;";
    for (const std::string& group : group_frames(profile, sample, options.group_by))
      line += frame(group, clean) + ';';
    if (const Stack* stack = entry(profile.stacks, sample.stack)) {
      std::string& text = stacks[sample.stack];
      if (text.empty()) text = folded_stack(profile, *stack, clean);
      line += text;
    }
    if (line.empty()) line = "[unknown];";
    line.pop_back();
    totals[std::move(line)] += on && !both ? 1 : sample.value_ns;
  }
  const bool counts = measures.on_cpu && !both;
  std::string out;
  for (const auto& [line, total] : totals)
    out += line + ' ' + std::to_string(counts ? total : (total + 500) / 1000) + '\n';
  return out;
}

}  // namespace vitrine::profile
