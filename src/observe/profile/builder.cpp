#include "observe/profile/builder.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

#include "base/limits.hpp"

namespace vitrine::observe {

using profile::Index;
using profile::none;

namespace {

constexpr std::size_t usual_samples = 64 * 1024;

}  // namespace

std::size_t ProfileBuilder::PlaceHash::operator()(const Place& place) const {
  return mix(mix(mix(place.mapping, place.process), place.address),
             static_cast<std::uint64_t>(place.kind));
}

std::size_t ProfileBuilder::StackHash::operator()(const profile::Stack& stack) const {
  std::size_t hash = static_cast<std::size_t>(stack.end);
  for (const Index location : stack.locations) hash = mix(hash, location);
  return hash;
}

std::size_t ProfileBuilder::LabelsHash::operator()(const profile::LabelSet& labels) const {
  std::size_t hash = labels.size();
  for (const profile::Label& label : labels)
    hash =
        mix(mix(hash, std::hash<std::string>{}(label.key)), std::hash<std::string>{}(label.value));
  return hash;
}

std::size_t ProfileBuilder::LinkHash::operator()(const profile::Link& link) const {
  std::uint64_t words[3];
  std::memcpy(words, link.trace_id.data(), 16);
  std::memcpy(words + 2, link.span_id.data(), 8);
  return mix(mix(mix(0, words[0]), words[1]), words[2]);
}

Index ProfileBuilder::process(const SampledPrograms::Program& program) {
  require_indices(program);
  return program->index;
}

void ProfileBuilder::require_indices(const SampledPrograms::Program& program) {
  if (program->generation != generation_) {
    program->generation = generation_;
    program->index = static_cast<Index>(processes_.size());
    program->version = 0;
    processes_.push_back(program);
  }
}

Index ProfileBuilder::mapping_of(const SampledPrograms::Program& program, const CodeSince& code,
                                 std::uint32_t region) {
  require_indices(program);
  if (program->version != code.version) {
    program->version = code.version;
    program->mapping_indices.assign(code.mappings.size(), none);
  }
  Index& index = program->mapping_indices[region];
  if (index != none || code.files[region] == nullptr) return index;
  const target::Mapping& mapping = code.mappings[region];
  const MappingKey key{program->index, mapping.start, mapping.end, mapping.offset,
                       code.files[region].get()};
  const auto known = known_mappings_.find(key);
  if (known != known_mappings_.end()) return index = known->second;
  if (mappings_.size() >= limits::profile_mappings) return none;
  index = static_cast<Index>(mappings_.size());
  mappings_.push_back(
      {mapping, code.files[region], code.unwinder.code()[region].bias, program->index});
  known_mappings_.emplace(key, index);
  return index;
}

Index ProfileBuilder::place(const Place& place) {
  if (const auto [at, there] = places_.find(place); there) return at;
  return places_.size() < limits::profile_locations ? places_.add(place) : none;
}

Index ProfileBuilder::text_place(std::string_view text) {
  const auto [known, there] = texts_.find(text);
  if (!there && texts_.size() >= limits::profile_locations) return none;
  const Index at = there ? known : texts_.add(std::string(text));
  return place({none, none, Address{at}, profile::FrameKind::native});
}

Index ProfileBuilder::kernel_place(Address address) {
  if (kernel_ == none) {
    kernel_ = static_cast<Index>(mappings_.size());
    MappedCode kernel;
    kernel.mapping.name = "[kernel]";
    kernel.mapping.start = 1ULL << 63;  // all of its half: where in it is not for all to know
    kernel.mapping.end = std::numeric_limits<Address>::max();
    mappings_.push_back(std::move(kernel));
  }
  return place({kernel_, none, address, profile::FrameKind::kernel});
}

Index ProfileBuilder::user_place(const SampledPrograms::Program& program, const CodeSince& code,
                                 std::uint32_t region, Address address) {
  const Index mapping = region == unwind::no_region ? none : mapping_of(program, code, region);
  if (mapping != none) return place({mapping, none, address, profile::FrameKind::native});
  return place({none, process(program), address, profile::FrameKind::unknown});
}

Index ProfileBuilder::stack(std::vector<Index> locations, profile::StackEnd end) {
  if (std::find(locations.begin(), locations.end(), none) != locations.end()) return none;
  const profile::Stack stack{std::move(locations), end};
  if (const auto [at, there] = stacks_.find(stack); there) return at;
  if (stacks_.size() >= limits::profile_stacks ||
      frames_ + stack.locations.size() > limits::profile_frames)
    return none;
  frames_ += stack.locations.size();
  return stacks_.add(stack);
}

Index ProfileBuilder::labels(const DisplayedLabels& fired) {
  if (fired.set.labels.empty()) return none;
  if (fired.id != 0)
    if (const auto known = labels_by_id_.find(fired.id); known != labels_by_id_.end())
      return known->second;
  profile::LabelSet labels;
  std::size_t bytes = 0;
  for (const format::Label& label : fired.set.labels) {
    labels.push_back({label.key, label.value});
    bytes += label.key.size() + label.value.size();
  }
  std::sort(labels.begin(), labels.end());
  Index index = none;
  if (const auto [at, there] = label_sets_.find(labels); there) {
    index = at;
  } else if (label_sets_.size() < limits::profile_label_sets &&
             label_bytes_ + bytes <= limits::profile_label_bytes) {
    label_bytes_ += bytes;
    index = label_sets_.add(labels);
  } else {
    ++losses_.truncated_labels;
    return none;
  }
  if (fired.id != 0) labels_by_id_.emplace(fired.id, index);
  return index;
}

Index ProfileBuilder::link(const DisplayedLabels& fired) {
  if (!fired.set.trace) return none;
  const Index index = link({fired.set.trace->trace_id, fired.set.trace->span_id});
  losses_.truncated_labels += index == none;
  return index;
}

Index ProfileBuilder::link(const profile::Link& link) {
  if (links_.size() < limits::profile_label_sets) return links_.add(link);
  const auto [at, there] = links_.find(link);
  return there ? at : none;
}

bool ProfileBuilder::add(profile::Sample sample) {
  if (sample.stack == none || samples_.size() >= limits::profile_samples) {
    losses_.events += sample.count;
    return false;
  }
  // Pages that nothing is written to take no memory; to grow takes as many again.
  if (samples_.capacity() == 0) samples_.reserve(usual_samples);
  samples_.push_back(std::move(sample));
  return true;
}

UnnamedProfile ProfileBuilder::take() {
  UnnamedProfile taken;
  for (const SampledPrograms::Program& program : processes_) {
    taken.profile.processes.push_back({static_cast<std::uint32_t>(program->pid),
                                       program->facts.command, program->facts.executable,
                                       resource_of(program->pid, program->facts)});
    taken.identities.push_back(program->facts.inner);
    taken.codes.push_back(program->code.last());
  }
  taken.processes = std::exchange(processes_, {});
  taken.mappings = std::exchange(mappings_, {});
  taken.places = places_.take();
  taken.texts = texts_.take();
  taken.profile.stacks = stacks_.take();
  taken.profile.label_sets = label_sets_.take();
  taken.profile.links = links_.take();
  taken.profile.samples = std::exchange(samples_, {});
  // Until here, ids that lead to no span differ from those that had no room.
  for (profile::Sample& sample : taken.profile.samples)
    if (sample.link != none && !taken.profile.links[sample.link].is_valid()) sample.link = none;
  taken.profile.losses = std::exchange(losses_, {});
  known_mappings_.clear();
  labels_by_id_.clear();
  kernel_ = none;
  frames_ = label_bytes_ = 0;
  ++generation_;
  return taken;
}

}  // namespace vitrine::observe
