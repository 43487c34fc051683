#include "profile/encode.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <utility>

#include "base/label_keys.hpp"
#include "base/text.hpp"
#include "profile/select.hpp"

namespace vitrine::profile {

const std::uint64_t indices_seed = [] {
  std::uint64_t seed = 0;
  static_cast<void>(::getrandom(&seed, sizeof seed, GRND_NONBLOCK));
  return seed;
}();

Measures measures_of(const Profile& profile) {
  Measures measures{.on_cpu = profile.frequency > 0, .off_cpu = profile.frequency == 0};
  for (const Sample& sample : profile.samples)
    (sample.measure == Measure::on_cpu ? measures.on_cpu : measures.off_cpu) = true;
  return measures;
}

std::uint64_t number_of_samples(const Profile& profile) {
  std::uint64_t number = 0;
  for (const Sample& sample : profile.samples) number += sample.count;
  return number;
}

std::string_view end_mark(StackEnd end) {
  switch (end) {
    case StackEnd::outermost:
    case StackEnd::depth:  // it has its mark between its frames
      return "";
    case StackEnd::truncated:
      return "[truncated]";
    case StackEnd::other_stack:
    case StackEnd::out_of_reach:
    case StackEnd::unread:
    case StackEnd::no_rule:
    case StackEnd::bad:
    case StackEnd::gone:
      return "[incomplete]";
  }
  return "";
}

std::vector<Sample> each_of(const Profile& profile, const Sample& sample) {
  if (profile.span_ns == 0 || sample.count <= 1) return {sample};
  std::vector<Sample> each(sample.count, sample);
  for (Sample& one : each) {
    one.count = 1;
    one.value_ns = sample.value_ns / sample.count;
  }
  each.front().value_ns += sample.value_ns % sample.count;
  return each;
}

std::array<std::uint64_t, stack_ends> count_ends(const Profile& profile) {
  std::array<std::uint64_t, stack_ends> counts{};
  for (const Sample& sample : profile.samples)
    if (const Stack* stack = entry(profile.stacks, sample.stack))
      counts[static_cast<std::size_t>(stack->end)] += sample.count;
  return counts;
}

std::optional<StackEnd> end_of_mark(std::string_view name) {
  for (const StackEnd end : {StackEnd::truncated, StackEnd::no_rule})
    if (name == end_mark(end)) return end;
  return std::nullopt;
}

std::vector<std::string_view> frame_names(const Profile& profile, const Location& location,
                                          std::string& scratch) {
  std::vector<std::string_view> names;
  for (const Line& line : location.lines)
    if (const Function* function = entry(profile.functions, line.function))
      names.emplace_back(function->name.empty() ? function->system_name : function->name);
  // Of some places only the line is known.
  if (names.empty()) names.emplace_back();
  if (std::ranges::none_of(names, &std::string_view::empty)) return names;
  const Mapping* mapping = entry(profile.mappings, location.mapping);
  std::string_view file = mapping == nullptr ? "" : std::string_view(mapping->file);
  file = file_name(file);
  if (file.empty()) {
    file = "[unknown]";
  } else if (file.front() != '[') {
    scratch = fmt::format("[{}]", file);
    file = scratch;
  }
  std::ranges::replace_if(names, &std::string_view::empty, file);
  return names;
}

std::vector<std::string> group_frames(const Profile& profile, const Sample& sample,
                                      const std::vector<std::string>& keys) {
  std::vector<std::string> frames;
  for (const std::string& key : keys)
    frames.push_back(key + '=' + group_name(value_of(profile, sample, key)));
  return frames;
}

namespace {

constexpr std::array<std::pair<std::uint64_t Losses::*, std::string_view>, 5> loss_remarks{{
    {&Losses::events, "samples were lost: the buffer was full"},
    {&Losses::truncated_stacks, "stacks are incomplete, and are marked"},
    {&Losses::truncated_labels, "samples have labels that were cut or omitted"},
    {&Losses::unread_labels, "samples have no labels because they could not be read"},
    {&Losses::unnamed, "locations were not named in time"},
}};

}  // namespace

void add_remark(Profile& profile, std::string_view remark) {
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(remark.data(), remark.data() + remark.size(), number);
  const std::string_view what = remark.substr(static_cast<std::size_t>(rest - remark.data()));
  if (error == std::errc{})
    for (const auto& [losses, text] : loss_remarks)
      if (what.starts_with(' ') && what.substr(1) == text) {
        std::uint64_t& sum = profile.losses.*losses;
        sum = number > ~sum ? ~std::uint64_t{0} : sum + number;
        return;
      }
  if (std::ranges::find(profile.problems, remark) == profile.problems.end())
    profile.problems.emplace_back(remark);
}

std::vector<std::string> remarks(const Profile& profile) {
  std::vector<std::string> out;
  for (const auto& [losses, what] : loss_remarks)
    if (const std::uint64_t number = profile.losses.*losses; number > 0)
      out.push_back(fmt::format("{} {}", number, what));
  out.insert(out.end(), profile.problems.begin(), profile.problems.end());
  return out;
}

std::string CleanText::operator()(std::string_view bytes) {
  if (is_utf8(bytes)) return std::string(bytes);
  ++replaced_;
  return replaced_utf8(bytes);
}

constexpr std::size_t max_renamed = 32;  // reported one by one

ExportedKeys::ExportedKeys(const Profile& profile, std::string_view label_prefix,
                           std::set<std::string, std::less<>> reserved,
                           std::string_view reserved_prefix, CleanText& clean) {
  std::set<std::string> keys;
  for (const LabelSet& set : profile.label_sets)
    for (const Label& label : set) keys.insert(label.key);
  KeyNames taken(std::move(reserved), reserved_prefix);
  std::uint64_t more = 0;
  for (const std::string& key : keys) {
    const std::string wanted = std::string(label_prefix) + clean(key);
    std::string name = taken.add(wanted);
    if (name != wanted) {
      if (renamed_.size() < max_renamed)
        renamed_.push_back(fmt::format("the label '{}' is renamed to '{}' here", key, name));
      else
        ++more;
    }
    names_.emplace(key, std::move(name));
  }
  if (more != 0) renamed_.push_back(fmt::format("{} more labels are renamed", more));
}

bool AttributeChoice::has(std::string_view key) const {
  return is_listed(patterns_, key);
}

bool AttributeChoice::names(std::string_view key) const {
  return requests_ && std::ranges::find(patterns_, key) != patterns_.end() && has(key);
}

AttributeChoice AttributeChoice::without_requests() const {
  AttributeChoice out = *this;
  out.requests_ = false;
  return out;
}

std::int64_t as_signed(std::uint64_t ns) {
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min(ns, most));
}

std::int64_t period_ns(const Profile& profile) {
  return profile.frequency == 0 ? 0 : 1'000'000'000 / profile.frequency;
}

namespace {

constexpr std::array<std::pair<std::string_view, Encoding>, 11> endings{{
    {".pb.gz", Encoding::pprof},
    {".pprof", Encoding::pprof},
    {".otlp", Encoding::otlp},
    {".pb", Encoding::otlp},
    {".folded", Encoding::folded},
    {".txt", Encoding::folded},
    {".speedscope.json", Encoding::speedscope},
    {".flat.ndjson", Encoding::json_flat},
    {".ndjson", Encoding::json},
    {".jsonl", Encoding::json},
    {".html", Encoding::html},
}};

}  // namespace

std::optional<Encoding> encoding_of_file(std::string_view path) {
  for (const auto& [ending, encoding] : endings)
    if (path.ends_with(ending)) return encoding;
  return std::nullopt;
}

std::string_view name_of(Encoding encoding) {
  for (const auto& [spelling, of] : encoding_names)
    if (of == encoding) return spelling;
  return "";
}

Result<void> encode(const Profile& profile, Encoding encoding, const EncodeOptions& options,
                    const Sink& sink) {
  switch (encoding) {
    case Encoding::pprof:
      return sink(TRY(encode_pprof(profile, options)));
    case Encoding::otlp:
      return sink(TRY(encode_otlp(profile, options)));
    case Encoding::folded:
      return sink(TRY(encode_folded(profile, options)));
    case Encoding::speedscope:
      return sink(TRY(encode_speedscope(profile, options)));
    case Encoding::json:
      return encode_json(profile, options, sink);
    case Encoding::json_flat:
      return encode_json_flat(profile, options, sink);
    case Encoding::html:
      return sink(TRY(encode_html(profile, options)));
  }
  return fail(ErrorCode::usage, "no such encoding");
}

Result<std::string> encode(const Profile& profile, Encoding encoding,
                           const EncodeOptions& options) {
  std::string out;
  TRY(encode(profile, encoding, options, [&](std::string_view piece) -> Result<void> {
    out += piece;
    return {};
  }));
  return out;
}

// Folded stacks: "root;…;leaf COUNT", as flamegraph.pl, inferno and speedscope read them.
//
// A line has one number and no unit. On-CPU it is samples, as stackcollapse-perf.pl writes them;
// off-CPU it is microseconds, as offcputime -f of bcc does. Where both were measured, both are
// microseconds, below an outermost frame "on-CPU" or "off-CPU": the two would not add up otherwise.

namespace {

/// A frame may not hold what separates frames, nor what ends a line or controls a terminal: ':' for
/// ';' as stackcollapse-perf.pl has it, a blank for the rest.
std::string frame(std::string_view name, CleanText& clean) {
  std::string out = replaced_controls(clean(name));
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
    const auto frames = frame_names(profile, *location, scratch);
    for (auto name = frames.rbegin(); name != frames.rend(); ++name)
      out += frame(*name, clean) + ';';
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
    totals[std::move(line)] += on && !both ? sample.count : sample.value_ns;
  }
  const bool counts = measures.on_cpu && !both;
  std::string out;
  for (const auto& [line, total] : totals)
    out += line + ' ' + std::to_string(counts ? total : (total + 500) / 1000) + '\n';
  return out;
}

}  // namespace vitrine::profile
