// pprof files as profiles (docs/formats/profiles.md, "pprof" and "Reading").
//
// The tables come in any order, and refer to each other by id: a first pass finds the messages, then
// each table is read from those that it refers to. Of the sample types, one counts samples, and one
// or two are times; what vitrine writes about a sample as labels (pid, thread_id, …) is that again.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/limits.hpp"
#include "base/text.hpp"
#include "profile/decode.hpp"
#include "profile/decoder.hpp"
#include "profile/encode.hpp"
#include "profile/pprof.hpp"

namespace vitrine::profile {
namespace {

using protozero::data_view;
using protozero::pbf_reader;

class PprofReader {
 public:
  explicit PprofReader(std::size_t room) : reading_(room) {}

  /// Throws Refused, and what protozero throws.
  Profile read(std::string_view message) {
    find(pbf_reader(message.data(), message.size()));
    read_types();
    read_mappings();
    read_functions();
    read_locations();
    read_head();
    read_samples();
    if (negative_ != 0)
      add_remark(reading_.profile,
                 fmt::format("{} samples have negative values, which count as 0", negative_));
    if (timeless_ != 0)
      add_remark(reading_.profile,
                 fmt::format("{} samples have a count and no time: they are left out", timeless_));
    return std::move(reading_.profile);
  }

  /// What is being read: "sample 7".
  [[nodiscard]] std::string where() const {
    return Place{place_.part, place_.number + 1}.within("pprof");
  }

 private:
  struct ValueType {
    std::int64_t type = 0, unit = 0;
  };

  /// The messages of each table.
  void find(pbf_reader message) {
    const auto keep = [&](std::vector<data_view>& into, std::size_t most, std::string_view what) {
      into.push_back(message.get_view());
      reading_.count(sizeof(data_view));
      check_count(into.size(), most, what);
    };
    while (message.next()) switch (message.tag_and_type()) {
        case nested(pprof::profile::sample_type):
          keep(types_, max_types, "sample types");
          break;
        case nested(pprof::profile::sample):
          keep(samples_, limits::profile_samples, "samples");
          break;
        case nested(pprof::profile::mapping):
          keep(mappings_, limits::profile_mappings, "mappings");
          break;
        case nested(pprof::profile::location):
          keep(locations_, limits::profile_locations, "locations");
          break;
        case nested(pprof::profile::function):
          keep(functions_, limits::profile_locations, "functions");
          break;
        case nested(pprof::profile::string_table):
          keep(strings_, limits::profile_strings, "strings");
          break;
        case varint(pprof::profile::time_nanos):
          time_ = message.get_int64();
          break;
        case varint(pprof::profile::duration_nanos):
          duration_ = message.get_int64();
          break;
        case nested(pprof::profile::period_type):
          period_type_ = value_type(message.get_message());
          break;
        case varint(pprof::profile::period):
          period_ = message.get_int64();
          break;
        case nested(pprof::profile::comment):
          for (const std::int64_t one : message.get_packed_int64()) add_comment(one);
          break;
        case varint(pprof::profile::comment):
          add_comment(message.get_int64());
          break;
        default:
          message.skip();
      }
  }

  void add_comment(std::int64_t string) {
    comments_.push_back(string);
    check_count(comments_.size(), max_comments, "comments");
  }

  static ValueType value_type(pbf_reader message) {
    ValueType out;
    while (message.next()) switch (message.tag_and_type()) {
        case varint(pprof::value_type::type):
          out.type = message.get_int64();
          break;
        case varint(pprof::value_type::unit):
          out.unit = message.get_int64();
          break;
        default:
          message.skip();
      }
    return out;
  }

  std::string_view string(std::int64_t index) const {
    if (index < 0 || static_cast<std::size_t>(index) >= strings_.size()) {
      if (index == 0) return {};
      refuse(fmt::format("string {} of {}", index, strings_.size()));
    }
    return text_of(strings_[static_cast<std::size_t>(index)]);
  }

  std::string text(std::int64_t index) { return reading_.text(string(index)); }

  /// A number of another table's entry; none for 0.
  Index at(const std::unordered_map<std::uint64_t, Index>& ids, std::uint64_t id,
           std::string_view what) const {
    if (id == 0) return none;
    const auto known = ids.find(id);
    if (known == ids.end()) refuse(fmt::format("there is no {} {}", what, id));
    return known->second;
  }

  void read_types() {
    place_.part = "sample type";
    TypeNames names;
    for (place_.number = 0; place_.number < types_.size(); ++place_.number) {
      const ValueType type = value_type(pbf_reader(types_[place_.number]));
      const ValueMeaning kind = value_meaning(string(type.type), string(type.unit));
      const auto take = [&](std::optional<std::size_t>& column, std::uint64_t& unit) {
        if (column) return;
        column = place_.number;
        unit = kind.unit_ns;
      };
      std::uint64_t no_unit = 0;
      switch (kind.column) {
        case ValueKind::ticks:
          take(ticks_, no_unit);
          break;
        case ValueKind::count:
          take(count_, no_unit);
          break;
        case ValueKind::on_cpu:
          take(on_cpu_, on_cpu_unit_);
          break;
        case ValueKind::waiting:
          take(waiting_, waiting_unit_);
          break;
        case ValueKind::wall:
          take(wall_, wall_unit_);
          break;
        case ValueKind::other:
          break;
      }
      names.add(string(type.type), string(type.unit));
    }
    place_.part = nullptr;
    period_unit_ = value_meaning(string(period_type_.type), string(period_type_.unit)).unit_ns;
    // Time of both kinds is of one kind only where there is no other.
    if (wall_ && !on_cpu_ && !waiting_) {
      waiting_ = wall_, waiting_unit_ = wall_unit_;
      add_remark(reading_.profile, "the file has wall-clock time, which is shown as waiting time");
    }
    if (!on_cpu_ && !waiting_ && ticks_ && time_ns(period_, period_unit_) != 0) {
      on_cpu_ = ticks_;
      on_cpu_unit_ = time_ns(period_, period_unit_);
    }
    if (!on_cpu_ && !waiting_) throw Refused(names.no_time());
    if (!ticks_) ticks_ = count_;
  }

  void read_mappings() {
    place_.part = "mapping";
    for (place_.number = 0; place_.number < mappings_.size(); ++place_.number) {
      Mapping mapping;
      std::uint64_t id = 0;
      pbf_reader message(mappings_[place_.number]);
      while (message.next()) switch (message.tag_and_type()) {
          case varint(pprof::mapping::id):
            id = message.get_uint64();
            break;
          case varint(pprof::mapping::start):
            mapping.start = message.get_uint64();
            break;
          case varint(pprof::mapping::limit):
            mapping.limit = message.get_uint64();
            break;
          case varint(pprof::mapping::offset):
            mapping.file_offset = message.get_uint64();
            break;
          case varint(pprof::mapping::filename):
            mapping.file = text(message.get_int64());
            break;
          case varint(pprof::mapping::build_id):
            mapping.build_id = text(message.get_int64());
            break;
          default:
            message.skip();
        }
      mapping_ids_.emplace(id, static_cast<Index>(place_.number));
      reading_.count(sizeof mapping);
      reading_.profile.mappings.push_back(std::move(mapping));
    }
  }

  void read_functions() {
    place_.part = "function";
    for (place_.number = 0; place_.number < functions_.size(); ++place_.number) {
      Function function;
      std::uint64_t id = 0;
      pbf_reader message(functions_[place_.number]);
      while (message.next()) switch (message.tag_and_type()) {
          case varint(pprof::function::id):
            id = message.get_uint64();
            break;
          case varint(pprof::function::name):
            function.name = text(message.get_int64());
            break;
          case varint(pprof::function::system_name):
            function.system_name = text(message.get_int64());
            break;
          case varint(pprof::function::filename):
            function.file = text(message.get_int64());
            break;
          case varint(pprof::function::start_line):
            function.start_line = line_number(message.get_int64());
            break;
          default:
            message.skip();
        }
      if (function.system_name == function.name) function.system_name.clear();
      function_ids_.emplace(id, static_cast<Index>(place_.number));
      reading_.count(sizeof function);
      reading_.profile.functions.push_back(std::move(function));
    }
  }

  void read_locations() {
    place_.part = "location";
    ends_.resize(locations_.size());
    for (place_.number = 0; place_.number < locations_.size(); ++place_.number) {
      Location location;
      std::uint64_t id = 0;
      pbf_reader message(locations_[place_.number]);
      while (message.next()) switch (message.tag_and_type()) {
          case varint(pprof::location::id):
            id = message.get_uint64();
            break;
          case varint(pprof::location::mapping_id):
            location.mapping = at(mapping_ids_, message.get_uint64(), "mapping");
            break;
          case varint(pprof::location::address):
            location.address = message.get_uint64();
            break;
          case nested(pprof::location::line):
            location.lines.push_back(line(message.get_message()));
            check_count(++lines_, limits::profile_frames, "lines of locations");
            break;
          default:
            message.skip();
        }
      const Mapping* mapping = entry(reading_.profile.mappings, location.mapping);
      location.kind = frame_kind(mapping == nullptr ? "" : mapping->file, !location.lines.empty());
      if (mapping == nullptr && location.address == 0 && location.lines.size() == 1)
        if (const auto* function = entry(reading_.profile.functions, location.lines[0].function))
          ends_[place_.number] = end_of_mark(function->name);
      location_ids_.emplace(id, static_cast<Index>(place_.number));
      reading_.count(sizeof location + location.lines.size() * sizeof(Line));
      reading_.profile.locations.push_back(std::move(location));
    }
  }

  Line line(pbf_reader message) const {
    Line out;
    while (message.next()) switch (message.tag_and_type()) {
        case varint(pprof::line::function_id):
          out.function = at(function_ids_, message.get_uint64(), "function");
          break;
        case varint(pprof::line::line):
          out.line = line_number(message.get_int64());
          break;
        default:
          message.skip();
      }
    return out;
  }

  void read_head() {
    place_.part = nullptr;
    Profile& profile = reading_.profile;
    profile.start_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(time_, 0));
    profile.duration_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(duration_, 0));
    if (on_cpu_) profile.frequency = std::max(frequency_of(period_, period_unit_), 1U);
    // Of another tool's comments nothing is known.
    if (comments_.empty() || string(comments_.front()) != pprof::origin) return;
    for (std::size_t i = 1; i < comments_.size(); ++i)
      add_remark(profile, reading_.text(string(comments_[i])));
  }

  using RawLabel = std::array<std::int64_t, 3>;  ///< key, text, number

  /// What a sample's message holds.
  struct Row {
    std::vector<std::uint64_t> locations;
    std::vector<std::int64_t> values;
    std::vector<RawLabel> labels;
  };

  void read_samples() {
    place_.part = "sample";
    Row row;
    for (place_.number = 0; place_.number < samples_.size(); ++place_.number) {
      row = {};
      pbf_reader message(samples_[place_.number]);
      while (message.next()) switch (message.tag_and_type()) {
          case nested(pprof::sample::location_id):
            for (const std::uint64_t id : message.get_packed_uint64()) {
              row.locations.push_back(id);
              check_count(row.locations.size(), max_depth, "frames of a stack");
            }
            break;
          case varint(pprof::sample::location_id):
            row.locations.push_back(message.get_uint64());
            check_count(row.locations.size(), max_depth, "frames of a stack");
            break;
          case nested(pprof::sample::value):
            for (const std::int64_t one : message.get_packed_int64()) {
              row.values.push_back(one);
              check_count(row.values.size(), types_.size(), "values");
            }
            break;
          case varint(pprof::sample::value):
            row.values.push_back(message.get_int64());
            check_count(row.values.size(), types_.size(), "values");
            break;
          case nested(pprof::sample::label):
            row.labels.push_back(label(message.get_message()));
            check_count(row.labels.size(), max_labels, "labels");
            break;
          default:
            message.skip();
        }
      add(row);
    }
  }

  static RawLabel label(pbf_reader message) {
    RawLabel out{};
    while (message.next()) switch (message.tag_and_type()) {
        case varint(pprof::label::key):
          out[0] = message.get_int64();
          break;
        case varint(pprof::label::str):
          out[1] = message.get_int64();
          break;
        case varint(pprof::label::num):
          out[2] = message.get_int64();
          break;
        default:
          message.skip();
      }
    return out;
  }

  /// The meaning of the labels: of each list of them once.
  const Sample& labelled(const std::vector<RawLabel>& raw) {
    if (const Sample* known = labelled_.find(raw)) return *known;
    Sample sample;
    LabelSet labels;
    Process process;
    std::string_view trace, span;
    for (const auto& [key, str, num] : raw) {
      const std::string_view name = string(key), value = string(str);
      constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
      const bool is_id = str == 0 && num >= 0 && num <= most;
      if (is_id && name == pprof::pid_key)
        process.pid = static_cast<std::uint32_t>(num);
      else if (is_id && name == pprof::thread_id_key)
        sample.tid = static_cast<std::uint32_t>(num);
      else if (str != 0 && name == pprof::process_key)
        process.command = reading_.text(value);
      else if (str != 0 && name == pprof::thread_name_key)
        sample.thread_name = reading_.text(value);
      else if (str != 0 && name == pprof::trace_id_key)
        trace = value;
      else if (str != 0 && name == pprof::span_id_key)
        span = value;
      else if (!name.empty())
        labels.push_back({reading_.text(name), str == 0 ? std::to_string(num)
                                               : value == pprof::empty_value
                                                   ? std::string()
                                                   : reading_.text(value)});
    }
    Link link;
    // Ids of another form than OpenTelemetry's, and one without the other, are labels as they are.
    parse_hex(trace, link.trace_id);
    parse_hex(span, link.span_id);
    sample.link = reading_.link(link);
    if (sample.link == none) {
      if (!trace.empty()) labels.push_back({pprof::trace_id_key, reading_.text(trace)});
      if (!span.empty()) labels.push_back({pprof::span_id_key, reading_.text(span)});
    }
    sample.labels = reading_.label_set(std::move(labels));
    sample.process = reading_.process(named(std::move(process)));
    return labelled_.put(raw, std::move(sample));
  }

  void add(const Row& row) {
    if (row.values.size() < types_.size())
      refuse(fmt::format("{} values for {} sample types", row.values.size(), types_.size()));
    Sample sample = labelled(row.labels);
    sample.stack = reading_.stack(stack(row.locations));
    sample.time_ns = reading_.profile.start_ns;

    const std::uint64_t on_cpu = time_at(row, on_cpu_, on_cpu_unit_);
    const std::uint64_t waiting = time_at(row, waiting_, waiting_unit_);
    const std::uint64_t period = time_ns(period_, period_unit_);
    const std::uint64_t all = ticks_ ? time_at(row, ticks_, 1) : 0;
    negative_ += std::exchange(is_negative_, false);
    timeless_ += all != 0 && on_cpu == 0 && waiting == 0;
    // One row may be of both measures; its count is that of both.
    std::uint64_t ticks = all;
    if (!ticks_ && on_cpu_ && period != 0) ticks = on_cpu / period;
    if (on_cpu != 0 && waiting != 0 && ticks_)
      ticks = std::min(period == 0 ? all / 2 : (on_cpu + period / 2) / period, all);
    const auto put = [&](Measure measure, std::uint64_t ns, std::uint64_t count) {
      Sample one = sample;
      one.measure = measure;
      one.value_ns = ns;
      one.count = std::max<std::uint64_t>(count, 1);
      reading_.sample(std::move(one));
    };
    if (on_cpu != 0) put(Measure::on_cpu, on_cpu, ticks);
    if (waiting != 0)
      put(Measure::off_cpu, waiting, on_cpu != 0 ? all - std::min(ticks, all) : all);
  }

  std::uint64_t time_at(const Row& row, std::optional<std::size_t> column, std::uint64_t unit) {
    if (!column) return 0;
    const std::int64_t value = row.values[*column];
    is_negative_ = is_negative_ || value < 0;
    return time_ns(value, unit);
  }

  /// The first mapping is the main program, where a file is of one process.
  Process named(Process process) const {
    const auto& mappings = reading_.profile.mappings;
    if (process.pid == 0 && process.command.empty() && !mappings.empty()) {
      const std::string& file = mappings.front().file;
      process.command = file_name(file);
    }
    return process;
  }

  Stack stack(const std::vector<std::uint64_t>& ids) const {
    Stack out;
    out.locations.reserve(ids.size());
    for (const std::uint64_t id : ids) {
      const Index index = at(location_ids_, id, "location");
      if (index == none) refuse("there is no location 0");
      out.locations.push_back(index);
    }
    if (!out.locations.empty())
      if (const auto end = ends_[out.locations.back()]) {
        out.end = *end;
        out.locations.pop_back();
      }
    return out;
  }

  static constexpr std::size_t max_types = 64, max_comments = 4096, max_labels = 4096;

  ProfileReading reading_;
  std::vector<data_view> types_, samples_, mappings_, locations_, functions_, strings_;
  std::vector<std::int64_t> comments_;
  std::int64_t time_ = 0, duration_ = 0, period_ = 0;
  ValueType period_type_;
  std::uint64_t period_unit_ = 0;
  std::optional<std::size_t> ticks_, count_, on_cpu_, waiting_, wall_;  ///< positions of values
  std::uint64_t on_cpu_unit_ = 0, waiting_unit_ = 0, wall_unit_ = 0;
  std::unordered_map<std::uint64_t, Index> mapping_ids_, function_ids_, location_ids_;
  KnownSamples<RawLabel> labelled_;
  std::vector<std::optional<StackEnd>> ends_;  ///< of locations that mark one
  std::size_t lines_ = 0;
  std::uint64_t negative_ = 0, timeless_ = 0;  ///< samples
  bool is_negative_ = false;                   ///< the one that is being read
  Place place_;
};

}  // namespace

Result<Profile> decode_pprof(std::string_view message, std::size_t room) {
  return decode_by(PprofReader(room), message);
}

}  // namespace vitrine::profile
