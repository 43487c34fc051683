// OTLP profiles as profiles (docs/formats/profiles.md, "OTLP" and "Reading").
//
// Everything is in one dictionary, and refers to it by position; entry 0 of a table is "none". One
// Profile of the file is one measure of one resource. What it measures is known by its sample type;
// ticks of the CPU's clock are left out where the same scope has the time that they stand for.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/limits.hpp"
#include "profile/decode.hpp"
#include "profile/decoder.hpp"
#include "profile/encode.hpp"
#include "profile/otlp.hpp"

namespace vitrine::profile {
namespace {

using OtlpReader = protozero::pbf_reader;
using OtlpView = protozero::data_view;

class OtlpDecoder {
 public:
  /// Throws Refused, and what protozero throws.
  Profile read(std::string_view message) {
    find(OtlpReader(message.data(), message.size()));
    read_attributes();
    read_mappings();
    read_functions();
    read_locations();
    read_stacks();
    read_links();
    for (const OtlpView resource : resources_) read_resource(OtlpReader(resource));
    Profile& profile = reading_.profile;
    if (!any_time_ && profile.samples.empty()) throw Refused(others_.no_time());
    profile.start_ns = start_ns_.value_or(0);
    profile.duration_ns = end_ns_ > profile.start_ns ? end_ns_ - profile.start_ns : 0;
    return std::move(profile);
  }

  [[nodiscard]] std::string where() const {
    return part_ == nullptr ? "OTLP" : fmt::format("OTLP: {} {}", part_, number_);
  }

 private:
  using Views = std::vector<OtlpView>;

  // ---- the dictionary

  void find(OtlpReader message) {
    while (message.next()) switch (message.tag_and_type()) {
        case nested(otlp::data::resource_profiles):
          resources_.push_back(message.get_view());
          check_count(resources_.size(), limits::profile_mappings, "resources");
          break;
        case nested(otlp::data::dictionary):
          find_tables(message.get_message());
          break;
        default:
          message.skip();
      }
  }

  void find_tables(OtlpReader message) {
    const auto keep = [&](Views& into, std::size_t most, std::string_view what) {
      into.push_back(message.get_view());
      check_count(into.size(), most, what);
    };
    while (message.next()) switch (message.tag_and_type()) {
        case nested(otlp::dictionary::mapping_table):
          keep(mappings_, limits::profile_mappings, "mappings");
          break;
        case nested(otlp::dictionary::location_table):
          keep(locations_, limits::profile_locations, "locations");
          break;
        case nested(otlp::dictionary::function_table):
          keep(functions_, limits::profile_locations, "functions");
          break;
        case nested(otlp::dictionary::link_table):
          keep(links_, limits::profile_label_sets, "spans");
          break;
        case nested(otlp::dictionary::string_table):
          keep(strings_, limits::profile_strings, "strings");
          break;
        case nested(otlp::dictionary::attribute_table):
          keep(attribute_views_, limits::profile_strings, "attributes");
          break;
        case nested(otlp::dictionary::stack_table):
          keep(stacks_, limits::profile_stacks, "stacks");
          break;
        default:
          message.skip();
      }
  }

  /// An index into a table; refuses one that is past its end.
  static std::size_t at(std::int64_t index, std::size_t size, std::string_view what) {
    if (index == 0) return 0;
    if (index < 0 || static_cast<std::size_t>(index) >= size)
      refuse(fmt::format("{} {} of {}", what, index, size));
    return static_cast<std::size_t>(index);
  }

  /// The same, of a table of the profile, which has no entry 0.
  static Index index_of(std::int64_t index, std::size_t size, std::string_view what) {
    const std::size_t place = at(index, size, what);
    return place == 0 ? none : static_cast<Index>(place - 1);
  }

  std::string_view string(std::int64_t index) const {
    const std::size_t place = at(index, strings_.size(), "string");
    return strings_.empty() ? std::string_view() : text_of(strings_[place]);
  }

  std::string text(std::int64_t index) { return reading_.text(string(index)); }

  struct Value {
    std::string_view text;
    std::int64_t number = 0;
    bool is_number = false;
    std::vector<std::string_view> texts;  ///< of an array

    [[nodiscard]] std::string str() const {
      return is_number ? std::to_string(number) : std::string(text);
    }
  };

  struct NamedValue {
    std::string_view key;
    Value value;
  };

  Value any_value(OtlpReader message) const {
    Value value;
    while (message.next()) switch (message.tag_and_type()) {
        case nested(otlp::any_value::string_value):
          value.text = text_of(message.get_view());
          break;
        case varint(otlp::any_value::string_value_strindex):
          value.text = string(message.get_int32());
          break;
        case varint(otlp::any_value::bool_value):
          value.text = message.get_bool() ? "true" : "false";
          break;
        case varint(otlp::any_value::int_value):
          value.number = message.get_int64();
          value.is_number = true;
          break;
        case nested(otlp::any_value::array_value):
          value.texts = array(message.get_message());
          break;
        default:
          message.skip();
      }
    return value;
  }

  /// The texts of it; nothing else is used, and nothing nested is followed.
  static std::vector<std::string_view> array(OtlpReader message) {
    std::vector<std::string_view> texts;
    while (message.next(otlp::array_value::values, protozero::pbf_wire_type::length_delimited)) {
      OtlpReader one = message.get_message();
      while (one.next()) {
        if (one.tag_and_type() == nested(otlp::any_value::string_value))
          texts.push_back(text_of(one.get_view()));
        else
          one.skip();
      }
      check_count(texts.size(), max_remarks, "remarks");
    }
    return texts;
  }

  void read_attributes() {
    part_ = "attribute";
    for (number_ = 0; number_ < attribute_views_.size(); ++number_) {
      NamedValue attribute;
      OtlpReader message(attribute_views_[number_]);
      while (message.next()) switch (message.tag_and_type()) {
          case varint(otlp::attribute::key_strindex):
            attribute.key = string(message.get_int32());
            break;
          case nested(otlp::attribute::value):
            attribute.value = any_value(message.get_message());
            break;
          default:
            message.skip();
        }
      attributes_.push_back(std::move(attribute));
    }
  }

  /// Takes a field of indices, packed or not.
  template <class Each>
  static bool indices(OtlpReader& message, otlp::Field field, Each each) {
    if (message.tag_and_type() == nested(field)) {
      for (const std::int32_t one : message.get_packed_int32()) each(one);
      return true;
    }
    if (message.tag_and_type() != varint(field)) return false;
    each(message.get_int32());
    return true;
  }

  const NamedValue* attribute(std::int64_t index) const {
    const std::size_t place = at(index, attributes_.size(), "attribute");
    return place == 0 ? nullptr : &attributes_[place];
  }

  void read_mappings() {
    part_ = "mapping";
    for (number_ = 1; number_ < mappings_.size(); ++number_) {
      Mapping mapping;
      OtlpReader message(mappings_[number_]);
      while (message.next()) {
        const bool taken =
            indices(message, otlp::mapping::attribute_indices, [&](std::int32_t index) {
              const NamedValue* named = attribute(index);
              if (named == nullptr) return;
              if (named->key == otlp::build_id_key)
                mapping.build_id = reading_.text(named->value.text);
              if (named->key == otlp::content_hash_key)
                mapping.content_hash = reading_.text(named->value.text);
            });
        if (taken) continue;
        switch (message.tag_and_type()) {
          case varint(otlp::mapping::memory_start):
            mapping.start = message.get_uint64();
            break;
          case varint(otlp::mapping::memory_limit):
            mapping.limit = message.get_uint64();
            break;
          case varint(otlp::mapping::file_offset):
            mapping.file_offset = message.get_uint64();
            break;
          case varint(otlp::mapping::filename_strindex):
            mapping.file = text(message.get_int32());
            break;
          default:
            message.skip();
        }
      }
      reading_.profile.mappings.push_back(std::move(mapping));
    }
  }

  void read_functions() {
    part_ = "function";
    for (number_ = 1; number_ < functions_.size(); ++number_) {
      Function function;
      OtlpReader message(functions_[number_]);
      while (message.next()) switch (message.tag_and_type()) {
          case varint(otlp::function::name_strindex):
            function.name = text(message.get_int32());
            break;
          case varint(otlp::function::system_name_strindex):
            function.system_name = text(message.get_int32());
            break;
          case varint(otlp::function::filename_strindex):
            function.file = text(message.get_int32());
            break;
          case varint(otlp::function::start_line):
            function.start_line = line_number(message.get_int64());
            break;
          default:
            message.skip();
        }
      reading_.profile.functions.push_back(std::move(function));
    }
  }

  static std::uint32_t line_number(std::int64_t line) {
    constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
    return line > 0 && line <= most ? static_cast<std::uint32_t>(line) : 0;
  }

  void read_locations() {
    part_ = "location";
    std::size_t lines = 0;
    ends_.resize(locations_.empty() ? 0 : locations_.size() - 1);
    for (number_ = 1; number_ < locations_.size(); ++number_) {
      Location location;
      std::optional<std::string_view> type;
      OtlpReader message(locations_[number_]);
      while (message.next()) {
        const bool taken =
            indices(message, otlp::location::attribute_indices, [&](std::int32_t index) {
              const NamedValue* named = attribute(index);
              if (named != nullptr && named->key == otlp::frame_type_key) type = named->value.text;
            });
        if (taken) continue;
        switch (message.tag_and_type()) {
          case varint(otlp::location::mapping_index):
            location.mapping = index_of(message.get_int32(), mappings_.size(), "mapping");
            break;
          case varint(otlp::location::address):
            location.address = message.get_uint64();
            break;
          case nested(otlp::location::lines):
            location.lines.push_back(line(message.get_message()));
            check_count(++lines, limits::profile_frames, "lines of locations");
            break;
          default:
            message.skip();
        }
      }
      const Mapping* mapping = entry(reading_.profile.mappings, location.mapping);
      location.kind = kind_of(type, mapping == nullptr ? std::string_view() : mapping->file,
                              !location.lines.empty());
      if (type == otlp::abort_marker) {
        const Function* function =
            location.lines.empty() ? nullptr
                                   : entry(reading_.profile.functions, location.lines[0].function);
        ends_[number_ - 1] = StackEnd::no_rule;
        if (function != nullptr)
          ends_[number_ - 1] = end_of_mark(function->name).value_or(StackEnd::no_rule);
      }
      reading_.profile.locations.push_back(std::move(location));
    }
  }

  static FrameKind kind_of(std::optional<std::string_view> type, std::string_view file,
                           bool named) {
    if (!type) return frame_kind(file, named);
    if (*type == "kernel") return FrameKind::kernel;
    if (*type == "native" || *type == "go" || *type == "rust") return FrameKind::native;
    return FrameKind::jit;  // of a runtime: no addresses of a file
  }

  Line line(OtlpReader message) const {
    Line out;
    while (message.next()) switch (message.tag_and_type()) {
        case varint(otlp::line::function_index):
          out.function = index_of(message.get_int32(), functions_.size(), "function");
          break;
        case varint(otlp::line::line):
          out.line = line_number(message.get_int64());
          break;
        default:
          message.skip();
      }
    return out;
  }

  void read_stacks() {
    part_ = "stack";
    for (number_ = 0; number_ < stacks_.size(); ++number_) {
      Stack stack;
      OtlpReader message(stacks_[number_]);
      while (message.next()) {
        const bool taken = indices(message, otlp::stack::location_indices, [&](std::int32_t index) {
          const Index location = index_of(index, locations_.size(), "location");
          if (location != none) stack.locations.push_back(location);
          check_count(stack.locations.size(), limits::profile_frames, "frames of stacks");
        });
        if (!taken) message.skip();
      }
      if (!stack.locations.empty())
        if (const auto end = ends_[stack.locations.back()]) {
          stack.end = *end;
          stack.locations.pop_back();
        }
      stack_places_.push_back(reading_.stack(std::move(stack)));
    }
  }

  template <std::size_t size>
  static void take_id(std::array<std::uint8_t, size>& into, OtlpView bytes) {
    if (bytes.size() == size) std::copy_n(bytes.data(), size, into.begin());
  }

  void read_links() {
    part_ = "link";
    for (number_ = 0; number_ < links_.size(); ++number_) {
      Link link;
      OtlpReader message(links_[number_]);
      while (message.next()) switch (message.tag_and_type()) {
          case nested(otlp::link::trace_id):
            take_id(link.trace_id, message.get_view());
            break;
          case nested(otlp::link::span_id):
            take_id(link.span_id, message.get_view());
            break;
          default:
            message.skip();
        }
      link_places_.push_back(reading_.link(link));
    }
    part_ = nullptr;
  }

  // ---- resources and their profiles

  void read_resource(OtlpReader message) {
    Process process;
    Views scopes;
    while (message.next()) switch (message.tag_and_type()) {
        case nested(otlp::resource_profiles::resource):
          process = read_process(message.get_message());
          break;
        case nested(otlp::resource_profiles::scope_profiles):
          scopes.push_back(message.get_view());
          check_count(scopes.size(), limits::profile_mappings, "scopes of a resource");
          break;
        default:
          message.skip();
      }
    const Index place = reading_.process(std::move(process));
    for (const OtlpView scope : scopes) read_scope(OtlpReader(scope), place);
  }

  Process read_process(OtlpReader message) {
    Process process;
    while (message.next()) {
      if (message.tag_and_type() != nested(otlp::resource::attributes)) {
        message.skip();
        continue;
      }
      std::string_view key;
      Value value;
      OtlpReader pair = message.get_message();
      while (pair.next()) switch (pair.tag_and_type()) {
          case nested(otlp::key_value::key):
            key = text_of(pair.get_view());
            break;
          case nested(otlp::key_value::value):
            value = any_value(pair.get_message());
            break;
          default:
            pair.skip();
        }
      constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
      if (key == otlp::pid_key && value.is_number && value.number >= 0 && value.number <= most)
        process.pid = static_cast<std::uint32_t>(value.number);
      else if (key == otlp::executable_path_key)
        process.executable = reading_.text(value.text);
      else if (key == otlp::executable_name_key)
        process.command = reading_.text(value.text);
      else if (!key.empty())
        process.resource.push_back({reading_.text(key), reading_.text(value.str())});
      check_count(process.resource.size(), limits::context_attributes, "attributes of a resource");
    }
    return process;
  }

  /// One Profile message, as far as it has to be known before its samples are read.
  struct Head {
    ValueMeaning kind;
    std::uint64_t period_ns = 0;
    std::uint64_t time = 0, duration = 0;
    Views samples;
  };

  void read_scope(OtlpReader message, Index process) {
    std::vector<Head> profiles;
    while (message.next()) {
      check_count(profiles.size(), max_profiles, "profiles of a scope");
      if (message.tag_and_type() == nested(otlp::scope_profiles::profiles))
        profiles.push_back(read_head(message.get_message()));
      else
        message.skip();
    }
    const auto has = [&](ValueKind column) {
      return std::ranges::any_of(profiles,
                                 [&](const Head& head) { return head.kind.column == column; });
    };
    const bool has_time = has(ValueKind::on_cpu), has_waiting = has(ValueKind::waiting);
    for (const Head& head : profiles) {
      const ValueKind column = head.kind.column;
      const bool doubled = (column == ValueKind::ticks && (has_time || head.period_ns == 0)) ||
                           (column == ValueKind::wall && (has_time || has_waiting));
      if (column == ValueKind::count || column == ValueKind::other || doubled) continue;
      read_profile(head, process);
    }
  }

  std::pair<std::string_view, std::string_view> value_type(OtlpReader message) const {
    std::pair<std::string_view, std::string_view> out;
    while (message.next()) switch (message.tag_and_type()) {
        case varint(otlp::value_type::type_strindex):
          out.first = string(message.get_int32());
          break;
        case varint(otlp::value_type::unit_strindex):
          out.second = string(message.get_int32());
          break;
        default:
          message.skip();
      }
    return out;
  }

  Head read_head(OtlpReader message) {
    Head head;
    std::int64_t period = 0;
    std::pair<std::string_view, std::string_view> type, period_type;
    while (message.next()) {
      const bool taken =
          indices(message, otlp::profile::attribute_indices, [&](std::int32_t index) {
            const NamedValue* named = attribute(index);
            if (named == nullptr || named->key != otlp::remarks_key) return;
            // Each profile of a file has the same.
            if (!std::exchange(has_remarks_, true))
              for (const std::string_view remark : named->value.texts)
                add_remark(reading_.profile, reading_.text(remark));
          });
      if (taken) continue;
      switch (message.tag_and_type()) {
        case nested(otlp::profile::sample_type):
          type = value_type(message.get_message());
          break;
        case nested(otlp::profile::samples):
          head.samples.push_back(message.get_view());
          check_count(++samples_, limits::profile_samples, "samples");
          break;
        case fixed64(otlp::profile::time_unix_nano):
          head.time = message.get_fixed64();
          break;
        case varint(otlp::profile::duration_nano):
          head.duration = message.get_uint64();
          break;
        case nested(otlp::profile::period_type):
          period_type = value_type(message.get_message());
          break;
        case varint(otlp::profile::period):
          period = message.get_int64();
          break;
        default:
          message.skip();
      }
    }
    head.kind = value_meaning(type.first, type.second);
    head.period_ns = time_ns(period, value_meaning(period_type.first, period_type.second).unit_ns);
    const bool is_time =
        head.kind.column != ValueKind::count && head.kind.column != ValueKind::other;
    any_time_ = any_time_ || is_time;
    if (!is_time) others_.add(type.first, type.second);
    return head;
  }

  void read_profile(const Head& head, Index process) {
    Profile& profile = reading_.profile;
    const bool on_cpu =
        head.kind.column == ValueKind::ticks || head.kind.column == ValueKind::on_cpu;
    if (on_cpu && profile.frequency == 0 && head.period_ns != 0)
      profile.frequency = frequency_of(static_cast<std::int64_t>(head.period_ns), 1);
    if (head.time != 0) {
      start_ns_ = std::min(start_ns_.value_or(head.time), head.time);
      end_ns_ = std::max(end_ns_, head.time + std::min(head.duration, ~head.time));
    }
    part_ = "sample";
    for (number_ = 1; number_ <= head.samples.size(); ++number_)
      read_sample(OtlpReader(head.samples[number_ - 1]), head, on_cpu, process);
    part_ = nullptr;
  }

  void read_sample(OtlpReader message, const Head& head, bool on_cpu, Index process) {
    std::vector<std::int32_t> attributes;
    std::vector<std::int64_t> values;
    std::vector<std::uint64_t> times;
    std::int64_t stack = 0, link = 0;
    while (message.next()) {
      if (indices(message, otlp::sample::attribute_indices, [&](std::int32_t index) {
            attributes.push_back(index);
            check_count(attributes.size(), max_attributes, "attributes of a sample");
          }))
        continue;
      switch (message.tag_and_type()) {
        case varint(otlp::sample::stack_index):
          stack = message.get_int32();
          break;
        case varint(otlp::sample::link_index):
          link = message.get_int32();
          break;
        case nested(otlp::sample::values):
          for (const std::int64_t one : message.get_packed_int64()) {
            values.push_back(one);
            check_count(values.size(), limits::profile_samples, "values");
          }
          break;
        case varint(otlp::sample::values):
          values.push_back(message.get_int64());
          check_count(values.size(), limits::profile_samples, "values");
          break;
        case nested(otlp::sample::timestamps_unix_nano):
          for (const std::uint64_t one : message.get_packed_fixed64()) {
            times.push_back(one);
            check_count(times.size(), limits::profile_samples, "times");
          }
          break;
        case fixed64(otlp::sample::timestamps_unix_nano):
          times.push_back(message.get_fixed64());
          check_count(times.size(), limits::profile_samples, "times");
          break;
        default:
          message.skip();
      }
    }
    if (!values.empty() && !times.empty() && values.size() != times.size())
      refuse(fmt::format("{} values and {} times", values.size(), times.size()));
    Sample sample = identified(attributes);
    sample.measure = on_cpu ? Measure::on_cpu : Measure::off_cpu;
    sample.process = process;
    const std::size_t stack_place = at(stack, stacks_.size(), "stack");
    sample.stack = stack_places_.empty() ? none : stack_places_[stack_place];
    const std::size_t link_place = at(link, links_.size(), "link");
    sample.link = link_places_.empty() ? none : link_places_[link_place];

    for (std::size_t i = 0; i < std::max(values.size(), times.size()); ++i) {
      const std::int64_t value = values.empty() ? 1 : values[i];
      if (value <= 0) continue;
      sample.time_ns = times.empty() ? head.time : times[i];
      if (head.kind.column == ValueKind::ticks) {
        sample.count = static_cast<std::uint64_t>(value);
        sample.value_ns = time_ns(value, head.period_ns);
      } else {
        sample.value_ns = time_ns(value, head.kind.unit_ns);
        sample.count = 1;
        if (on_cpu && head.period_ns != 0)
          sample.count = std::max<std::uint64_t>(sample.value_ns / head.period_ns, 1);
      }
      reading_.sample(sample);
    }
  }

  /// A sample of these attributes: of each list of them once.
  const Sample& identified(const std::vector<std::int32_t>& indices) {
    if (const Sample* known = identified_.find(indices)) return *known;
    Sample sample;
    LabelSet labels;
    for (const std::int32_t index : indices) {
      const NamedValue* named = attribute(index);
      if (named == nullptr) continue;
      const Value& value = named->value;
      constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
      const bool is_id = value.is_number && value.number >= 0 && value.number <= most;
      if (is_id && named->key == otlp::thread_id_key)
        sample.tid = static_cast<std::uint32_t>(value.number);
      else if (is_id && named->key == otlp::cpu_key)
        sample.cpu = static_cast<std::uint32_t>(value.number);
      else if (!value.is_number && named->key == otlp::thread_name_key)
        sample.thread_name = reading_.text(value.text);
      else
        labels.push_back({reading_.text(named->key), reading_.text(value.str())});
    }
    sample.labels = reading_.label_set(std::move(labels));
    return identified_.put(indices, std::move(sample));
  }

  static constexpr std::size_t max_remarks = 4096, max_profiles = 64 * 1024, max_attributes = 4096;

  ProfileReading reading_;
  Views resources_, mappings_, locations_, functions_, links_, strings_, attribute_views_, stacks_;
  std::vector<NamedValue> attributes_;
  std::vector<std::optional<StackEnd>> ends_;  ///< of locations that mark one
  std::vector<Index> stack_places_, link_places_;
  KnownSamples<std::int32_t> identified_;
  TypeNames others_;  ///< sample types that are no time
  bool any_time_ = false, has_remarks_ = false;
  std::optional<std::uint64_t> start_ns_;
  std::uint64_t end_ns_ = 0;
  std::size_t samples_ = 0;
  const char* part_ = nullptr;
  std::size_t number_ = 0;
};

}  // namespace

Result<Profile> decode_otlp(std::string_view message) {
  return decode_by(OtlpDecoder(), message);
}

}  // namespace vitrine::profile
