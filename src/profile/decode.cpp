#include "profile/decode.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/gzip.hpp"
#include "base/limits.hpp"
#include "profile/decoder.hpp"

namespace vitrine::profile {
namespace {

constexpr std::string_view gzip_magic = "\x1f\x8b";

/// OTLP's message has the fields 1 and 2 alone; no pprof file is without the strings of field 6.
Result<bool> is_otlp(std::string_view message) {
  try {
    protozero::pbf_reader fields(message.data(), message.size());
    while (fields.next()) {
      if (fields.tag() > 2) return false;
      fields.skip();
    }
    return true;
  } catch (const protozero::exception&) {
    return fail(ErrorCode::malformed, "neither pprof nor OTLP, or truncated", not_a_profile);
  }
}

}  // namespace

std::size_t room_for(std::size_t bytes) {
  return bytes > max_room / room_for_byte ? max_room : std::max(min_room, bytes * room_for_byte);
}

Result<Profile> decode(std::string_view file) {
  const std::size_t room = room_for(file.size());
  std::string inflated;
  if (file.starts_with(gzip_magic)) {
    inflated = TRY(gunzip(file, std::min(limits::profile_file_bytes, room)));
    file = inflated;
  }
  if (file.empty()) return fail(ErrorCode::malformed, "the file is empty");
  return TRY(is_otlp(file)) ? decode_otlp(file, room) : decode_pprof(file, room);
}

Result<Profile> decode_pprof(std::string_view message) {
  return decode_pprof(message, room_for(message.size()));
}

Result<Profile> decode_otlp(std::string_view message) {
  return decode_otlp(message, room_for(message.size()));
}

std::string Place::within(std::string_view format) const {
  return part == nullptr ? std::string(format) : fmt::format("{}: {} {}", format, part, number);
}

void refuse(std::string why) {
  throw Refused({ErrorCode::malformed, std::move(why), {}});
}

void check_count(std::size_t count, std::size_t most, std::string_view what) {
  if (count > most)
    throw Refused({ErrorCode::limit, fmt::format("more than {} {}", most, what), {}});
}

ValueMeaning value_meaning(std::string_view type, std::string_view unit) {
  const auto is_one_of = [](std::string_view text, auto... names) {
    return ((text == names) || ...);
  };
  const std::uint64_t ns = is_one_of(unit, "nanoseconds", "ns", "nanosecond")     ? 1
                           : is_one_of(unit, "microseconds", "us", "microsecond") ? 1'000
                           : is_one_of(unit, "milliseconds", "ms", "millisecond") ? 1'000'000
                           : is_one_of(unit, "seconds", "s", "second")            ? 1'000'000'000
                                                                                  : 0;
  if (ns == 0) {
    if (unit != "count") return {};
    const bool ticks = is_one_of(type, "samples", "sample", "cpu", "cpu-samples", "cpu_samples");
    return {ticks ? ValueKind::ticks : ValueKind::count, 0};
  }
  if (is_one_of(type, "cpu", "on_cpu", "on-cpu", "cpu-time", "cpu_time"))
    return {ValueKind::on_cpu, ns};
  if (is_one_of(type, "wall", "wall-time", "wall_time")) return {ValueKind::wall, ns};
  return {ValueKind::waiting, ns};
}

std::uint64_t time_ns(std::int64_t value, std::uint64_t unit_ns) {
  if (value <= 0 || unit_ns == 0) return 0;
  const auto number = static_cast<std::uint64_t>(value);
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  return number > most / unit_ns ? most : number * unit_ns;
}

std::uint32_t frequency_of(std::int64_t period, std::uint64_t unit_ns) {
  constexpr std::uint64_t second = 1'000'000'000;
  const std::uint64_t ns = time_ns(period, unit_ns);
  if (ns == 0) return 0;
  // Of a period above two seconds, too: 0 would mean that nothing was sampled.
  return static_cast<std::uint32_t>(std::max<std::uint64_t>((second + ns / 2) / ns, 1));
}

void ProfileReading::count(std::size_t bytes) {
  taken_ += bytes;
  if (taken_ > room_)
    throw Refused(
        {ErrorCode::limit,
         fmt::format("it takes more than {} MiB of memory, too much for its size", room_ >> 20),
         {}});
}

void ProfileReading::count_text(std::size_t bytes) {
  count(bytes);
  text_bytes_ += bytes;
  check_count(text_bytes_, limits::profile_text_bytes, "bytes of text");
}

std::string ProfileReading::text(std::string_view bytes) {
  count_text(bytes.size());
  return std::string(bytes);
}

void TypeNames::add(std::string_view type, std::string_view unit) {
  constexpr std::size_t longest = 64, most = 512;
  if (names_.size() > most) return;
  names_ += fmt::format("{}{}/{}", names_.empty() ? "" : ", ", type.substr(0, longest),
                        unit.substr(0, longest));
}

Error TypeNames::no_time() const {
  return {ErrorCode::unsupported,
          fmt::format("it holds no time, but {}", names_.empty() ? "nothing" : names_),
          "vitrine reads profiles of CPU time and of waiting time"};
}

Index ProfileReading::stack(Stack stack) {
  const auto next = static_cast<Index>(profile.stacks.size());
  const auto [known, added] = stacks_.try_emplace(stack, next);
  if (!added) return known->second;
  count(sizeof(Stack) + stack.locations.size() * sizeof(Index));
  frames_ += stack.locations.size();
  check_count(stacks_.size(), limits::profile_stacks, "different stacks");
  check_count(frames_, limits::profile_frames, "frames of stacks");
  profile.stacks.push_back(std::move(stack));
  return next;
}

Index ProfileReading::label_set(LabelSet set) {
  if (set.empty()) return none;
  std::ranges::stable_sort(set, {}, &Label::key);
  const auto same_key = [](const Label& a, const Label& b) { return a.key == b.key; };
  set.erase(std::unique(set.begin(), set.end(), same_key), set.end());
  const auto next = static_cast<Index>(profile.label_sets.size());
  const auto [known, added] = label_sets_.try_emplace(set, next);
  if (!added) return known->second;
  count(sizeof(LabelSet) + set.size() * sizeof(Label));
  check_count(label_sets_.size(), limits::profile_label_sets, "different sets of labels");
  profile.label_sets.push_back(std::move(set));
  return next;
}

Index ProfileReading::link(const Link& link) {
  if (!link.is_valid()) return none;
  const auto next = static_cast<Index>(profile.links.size());
  const auto [known, added] = links_.try_emplace(link, next);
  if (!added) return known->second;
  count(sizeof link);
  check_count(links_.size(), limits::profile_label_sets, "different spans");
  profile.links.push_back(link);
  return next;
}

Index ProfileReading::process(Process process) {
  const auto next = static_cast<Index>(profile.processes.size());
  const auto [known, added] = processes_.try_emplace(process, next);
  if (!added) return known->second;
  count(sizeof process + process.resource.size() * sizeof(Attribute));
  check_count(processes_.size(), limits::profile_mappings, "processes");
  profile.processes.push_back(std::move(process));
  return next;
}

void ProfileReading::sample(Sample sample) {
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  check_count(profile.samples.size() + 1, limits::profile_samples, "samples");
  count(sizeof sample);
  count_text(sample.thread_name.size());  // a copy in each sample
  if (sample.value_ns > most - total_ns_) refuse("its times add up to more than 292 years");
  if (sample.count > most - total_count_) refuse("its counts add up to more than 2^63");
  total_ns_ += sample.value_ns;
  total_count_ += sample.count;
  profile.samples.push_back(std::move(sample));
}

std::uint32_t line_number(std::int64_t line) {
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  return line > 0 && line <= most ? static_cast<std::uint32_t>(line) : 0;
}

FrameKind frame_kind(std::string_view file, bool named) {
  if (file.starts_with("[kernel") || file == "[guest.kernel.kallsyms]") return FrameKind::kernel;
  if (!file.empty()) return FrameKind::native;
  return named ? FrameKind::jit : FrameKind::unknown;
}

}  // namespace vitrine::profile
