// OTLP profiles as profiles (docs/formats/profiles.md, "OTLP" and "Reading").
//
// Resources refer to one dictionary by position. One Profile of the file is one measure of one
// resource. What it measures is known by its sample type; ticks of the CPU's clock are left out
// where the same scope has the time that they stand for.
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
#include "profile/otlp_dictionary.hpp"

namespace vitrine::profile {
namespace {

class OtlpDecoder {
 public:
  explicit OtlpDecoder(std::size_t room) : reading_(room) {}

  OtlpDecoder(const OtlpDecoder&) = delete;
  OtlpDecoder& operator=(const OtlpDecoder&) = delete;

  /// Throws Refused, and what protozero throws.
  Profile read(std::string_view message) {
    find(OtlpReader(message.data(), message.size()));
    dictionary_.read();
    for (const OtlpView resource : resources_) read_resource(OtlpReader(resource));
    Profile& profile = reading_.profile;
    // An interval without samples has no resources.
    if (!any_time_ && !resources_.empty() && profile.samples.empty())
      throw Refused(others_.no_time());
    profile.start_ns = start_ns_.value_or(0);
    profile.duration_ns = end_ns_ > profile.start_ns ? end_ns_ - profile.start_ns : 0;
    return std::move(profile);
  }

  [[nodiscard]] std::string where() const { return place_.within("OTLP"); }

 private:
  using Views = std::vector<OtlpView>;

  void find(OtlpReader message) {
    while (message.next()) switch (message.tag_and_type()) {
        case nested(otlp::data::resource_profiles):
          resources_.push_back(message.get_view());
          check_count(resources_.size(), limits::profile_mappings, "resources");
          break;
        case nested(otlp::data::dictionary):
          dictionary_.find_tables(message.get_message());
          break;
        default:
          message.skip();
      }
  }

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
      OtlpDictionary::Value value;
      OtlpReader pair = message.get_message();
      while (pair.next()) switch (pair.tag_and_type()) {
          case nested(otlp::key_value::key):
            key = text_of(pair.get_view());
            break;
          case nested(otlp::key_value::value):
            value = dictionary_.any_value(pair.get_message());
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
          out.first = dictionary_.string(message.get_int32());
          break;
        case varint(otlp::value_type::unit_strindex):
          out.second = dictionary_.string(message.get_int32());
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
          take_indices(message, otlp::profile::attribute_indices, [&](std::int32_t index) {
            const OtlpDictionary::NamedValue* named = dictionary_.attribute(index);
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
          reading_.count(sizeof(protozero::data_view));
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
    place_.part = "sample";
    for (place_.number = 1; place_.number <= head.samples.size(); ++place_.number)
      read_sample(OtlpReader(head.samples[place_.number - 1]), head, on_cpu, process);
    place_.part = nullptr;
  }

  void read_sample(OtlpReader message, const Head& head, bool on_cpu, Index process) {
    std::vector<std::int32_t> attributes;
    std::vector<std::int64_t> values;
    std::vector<std::uint64_t> times;
    std::int64_t stack = 0, link = 0;
    while (message.next()) {
      if (take_indices(message, otlp::sample::attribute_indices, [&](std::int32_t index) {
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
    sample.stack = dictionary_.stack(stack);
    sample.link = dictionary_.link(link);

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
      const OtlpDictionary::NamedValue* named = dictionary_.attribute(index);
      if (named == nullptr) continue;
      const OtlpDictionary::Value& value = named->value;
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

  static constexpr std::size_t max_profiles = 64 * 1024, max_attributes = 4096;

  ProfileReading reading_;
  Place place_;
  OtlpDictionary dictionary_{reading_, place_};
  Views resources_;
  KnownSamples<std::int32_t> identified_;
  TypeNames others_;  ///< sample types that are no time
  bool any_time_ = false, has_remarks_ = false;
  std::optional<std::uint64_t> start_ns_;
  std::uint64_t end_ns_ = 0;
  std::size_t samples_ = 0;
};

}  // namespace

Result<Profile> decode_otlp(std::string_view message, std::size_t room) {
  return decode_by(OtlpDecoder(room), message);
}

}  // namespace vitrine::profile
