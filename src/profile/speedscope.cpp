// speedscope: its JSON file format, one sampled profile a measure, weights in nanoseconds.
//
// Samples with the same groups and stack are one, in the order in which they were first met: a
// profile of many threads has no single timeline that the order could show.
#include <map>
#include <unordered_map>

#include "base/json.hpp"
#include "profile/encode.hpp"

namespace vitrine::profile {
namespace {

/// Frames of the file, each once.
class Frames {
 public:
  std::size_t add(std::string_view name, std::string_view file, std::uint32_t line) {
    Json frame = {{"name", clean_(name)}};
    if (!file.empty()) frame["file"] = clean_(file);
    if (line != 0) frame["line"] = line;
    const auto [known, added] = places_.try_emplace(frame.dump(), frames_.size());
    if (added) frames_.push_back(std::move(frame));
    return known->second;
  }

  /// From the root to the leaf.
  std::vector<std::size_t> of(const Profile& profile, const Stack& stack) {
    std::vector<std::size_t> out;
    if (const auto mark = end_mark(stack.end); !mark.empty()) out.push_back(add(mark, "", 0));
    for (auto at = stack.locations.rbegin(); at != stack.locations.rend(); ++at)
      if (const Location* location = entry(profile.locations, *at)) {
        std::vector<std::size_t>& known = of_location_[*at];
        if (known.empty()) add_to(known, profile, *location);
        out.insert(out.end(), known.begin(), known.end());
      }
    return out;
  }

  Json take() { return std::move(frames_); }

 private:
  void add_to(std::vector<std::size_t>& out, const Profile& profile, const Location& location) {
    bool named = false;
    for (auto line = location.lines.rbegin(); line != location.lines.rend(); ++line)
      if (const Function* function = entry(profile.functions, line->function)) {
        const std::string& name = function->name.empty() ? function->system_name : function->name;
        out.push_back(add(name, function->file, line->line));
        named = true;
      }
    std::string scratch;
    if (!named) out.push_back(add(frame_names(profile, location, scratch).front(), "", 0));
  }

  CleanText clean_;
  Json frames_ = Json::array();
  std::unordered_map<std::string, std::size_t> places_;
  std::unordered_map<Index, std::vector<std::size_t>> of_location_;
};

/// The samples of one measure.
class Sampled {
 public:
  void add(std::vector<std::size_t> frames, std::uint64_t weight) {
    const auto [known, added] = places_.try_emplace(std::move(frames), samples_.size());
    if (added) {
      samples_.push_back(&known->first);
      weights_.push_back(0);
    }
    weights_[known->second] += weight;
    total_ += weight;
  }

  [[nodiscard]] Json json(std::string_view name) const {
    Json samples = Json::array();
    for (const auto* frames : samples_) samples.push_back(*frames);
    return {{"type", "sampled"},  {"name", name},       {"unit", "nanoseconds"},
            {"startValue", 0},    {"endValue", total_}, {"samples", std::move(samples)},
            {"weights", weights_}};
  }

 private:
  std::map<std::vector<std::size_t>, std::size_t> places_;
  std::vector<const std::vector<std::size_t>*> samples_;
  std::vector<std::uint64_t> weights_;
  std::uint64_t total_ = 0;
};

}  // namespace

Result<std::string> encode_speedscope(const Profile& profile, const EncodeOptions& options) {
  const Measures measures = measures_of(profile);
  Frames frames;
  Sampled on_cpu, off_cpu;
  std::vector<std::vector<std::size_t>> stacks(profile.stacks.size());
  for (const Sample& sample : profile.samples) {
    std::vector<std::size_t> all;
    for (const std::string& group : group_frames(profile, sample, options.group_by))
      all.push_back(frames.add(group, "", 0));
    if (const Stack* stack = entry(profile.stacks, sample.stack)) {
      std::vector<std::size_t>& known = stacks[sample.stack];
      if (known.empty()) known = frames.of(profile, *stack);
      all.insert(all.end(), known.begin(), known.end());
    }
    (sample.measure == Measure::on_cpu ? on_cpu : off_cpu).add(std::move(all), sample.value_ns);
  }
  Json profiles = Json::array();
  if (measures.on_cpu) profiles.push_back(on_cpu.json("CPU"));
  if (measures.off_cpu) profiles.push_back(off_cpu.json("off-CPU"));
  CleanText clean;
  const Json file = {{"$schema", "https://www.speedscope.app/file-format-schema.json"},
                     {"shared", {{"frames", frames.take()}}},
                     {"profiles", std::move(profiles)},
                     {"name", options.title.empty() ? "vitrine profile" : clean(options.title)},
                     {"activeProfileIndex", 0},
                     {"exporter", "vitrine"}};
  return json_text(file) + '\n';
}

}  // namespace vitrine::profile
