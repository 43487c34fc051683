// speedscope: its JSON file format, one sampled profile a measure, weights in nanoseconds.
//
// Samples with the same groups and stack are one, in the order in which they were first met: a
// profile of many threads has no single timeline that the order could show.
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/interner.hpp"
#include "base/json.hpp"
#include "profile/encode.hpp"

namespace vitrine::profile {
namespace {

/// Frames from the root to the leaf.
using FrameIds = std::vector<std::uint32_t>;

struct FrameIdsHash {
  std::size_t operator()(const FrameIds& frames) const {
    std::size_t hash = frames.size();
    for (const std::uint32_t frame : frames) hash = mix(hash, frame);
    return hash;
  }
};

/// Frames of the file, each once.
class Frames {
 public:
  std::uint32_t add(std::string_view name, std::string_view file, std::uint32_t line) {
    const std::string clean_name = clean_(name), clean_file = clean_(file);
    key_.assign(clean_name).append(1, '\0').append(clean_file).append(1, '\0');
    key_ += std::to_string(line);
    const std::uint32_t id = known_.add(key_);
    if (id < frames_.size()) return id;
    Json frame = {{"name", clean_name}};
    if (!clean_file.empty()) frame["file"] = clean_file;
    if (line != 0) frame["line"] = line;
    frames_.push_back(std::move(frame));
    return id;
  }

  FrameIds of(const Profile& profile, const Stack& stack) {
    FrameIds out;
    if (const auto mark = end_mark(stack.end); !mark.empty()) out.push_back(add(mark, "", 0));
    for (auto at = stack.locations.rbegin(); at != stack.locations.rend(); ++at)
      if (const Location* location = entry(profile.locations, *at)) {
        FrameIds& known = of_location_[*at];
        if (known.empty()) add_to(known, profile, *location);
        out.insert(out.end(), known.begin(), known.end());
      }
    return out;
  }

  Json take() { return std::move(frames_); }

 private:
  void add_to(FrameIds& out, const Profile& profile, const Location& location) {
    std::string scratch;
    std::vector<std::string_view> names = frame_names(profile, location, scratch);
    const std::size_t count = out.size();
    for (auto line = location.lines.rbegin(); line != location.lines.rend(); ++line)
      if (const Function* function = entry(profile.functions, line->function)) {
        out.push_back(add(names.back(), function->file, line->line));
        names.pop_back();
      }
    if (out.size() == count) out.push_back(add(names.front(), "", 0));
  }

  CleanText clean_;
  Json frames_ = Json::array();
  StringInterner known_;
  std::string key_;
  std::unordered_map<Index, FrameIds> of_location_;
};

/// Stacks that have the same frames, as one.
using Stacks = Interner<FrameIds, FrameIdsHash>;

/// The samples of one measure.
class Sampled {
 public:
  /// `groups`: the outermost frames.
  void add(FrameIds groups, std::uint32_t stack, std::uint64_t weight) {
    groups.push_back(stack);
    const std::uint32_t at = rows_.add(std::move(groups));
    if (at == weights_.size()) weights_.push_back(0);
    weights_[at] += weight;
    total_ += weight;
  }

  [[nodiscard]] Json json(std::string_view name, const Stacks& stacks) const {
    Json samples = Json::array();
    for (const FrameIds& row : rows_.values()) {
      FrameIds frames(row.begin(), row.end() - 1);
      const FrameIds& stack = stacks.values()[row.back()];
      frames.insert(frames.end(), stack.begin(), stack.end());
      samples.push_back(std::move(frames));
    }
    return {{"type", "sampled"},  {"name", name},       {"unit", "nanoseconds"},
            {"startValue", 0},    {"endValue", total_}, {"samples", std::move(samples)},
            {"weights", weights_}};
  }

 private:
  Interner<FrameIds, FrameIdsHash> rows_;  ///< groups, and which stack
  std::vector<std::uint64_t> weights_;
  std::uint64_t total_ = 0;
};

}  // namespace

Result<std::string> encode_speedscope(const Profile& profile, const EncodeOptions& options) {
  const Measures measures = measures_of(profile);
  Frames frames;
  Stacks stacks;
  Sampled on_cpu, off_cpu;
  std::vector<Index> stack_ids(profile.stacks.size(), none);  // each found when first met
  const Index no_stack = stacks.add(FrameIds{});
  for (const Sample& sample : profile.samples) {
    FrameIds groups;
    for (const std::string& group : group_frames(profile, sample, options.group_by))
      groups.push_back(frames.add(group, "", 0));
    Index id = no_stack;
    if (const Stack* stack = entry(profile.stacks, sample.stack)) {
      Index& known = stack_ids[sample.stack];
      if (known == none) known = stacks.add(frames.of(profile, *stack));
      id = known;
    }
    (sample.measure == Measure::on_cpu ? on_cpu : off_cpu)
        .add(std::move(groups), id, sample.value_ns);
  }
  Json profiles = Json::array();
  if (measures.on_cpu) profiles.push_back(on_cpu.json("CPU", stacks));
  if (measures.off_cpu) profiles.push_back(off_cpu.json("off-CPU", stacks));
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
