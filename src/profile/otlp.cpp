// OTLP profiles, v1development, as receivers take them (docs/formats/profiles.md, "OTLP" and
// "What OTLP receivers require").
//
// - One ResourceProfiles a process, with a Profile a measure: on-CPU samples have timestamps alone
//   (a sample is one tick; of samples that are not, their time is the value), off-CPU ones a value each, and an empty
//   period type unless it is asked for.
// - Labels are attributes of samples under their bare keys, as plain strings; ids of traces are links.
// - What several of them refer to is in a dictionary (otlp_dictionary_writer.hpp).
#include "profile/otlp.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <memory_resource>
#include <numeric>
#include <protozero/pbf_writer.hpp>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/batch_memory.hpp"
#include "base/interner.hpp"
#include "base/redaction.hpp"
#include "base/text.hpp"
#include "profile/decode.hpp"
#include "profile/encode.hpp"
#include "profile/otlp_dictionary_writer.hpp"

namespace vitrine::profile {
namespace {

using telemetry::Tag;
using telemetry::Writer;

/// What makes samples the same but for their times: places in the dictionary, 0 for none. `labels`
/// is one in attribute_sets_.
enum Identity : std::size_t { stack_at, link_at, labels_at, tid_at, thread_name_at, cpu_at };
using Row = std::array<std::uint32_t, 6>;

/// Samples by their row, each row's in the order of the profile.
struct Rows {
  std::vector<Row> rows;
  std::vector<std::size_t> begins;  ///< of each row in `samples`, and the end of the last
  std::vector<const Sample*> samples;
};

/// What the samples of a profile have; all have the same.
enum class Shape : std::uint8_t { times, times_and_values, counts, sums };

std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  return as_signed(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

constexpr std::size_t profile_id_bytes = 16;

/// The same for the same profile, so that a receiver may know that it has it already. Of a large one, what both ends
/// hold: its time, its duration, and the times of the samples there.
std::string profile_id(std::string_view resource, std::string_view encoded) {
  constexpr std::size_t most = 4096;
  std::string identity{resource};
  identity += encoded.substr(0, most);
  identity += encoded.substr(encoded.size() - std::min(most, encoded.size()));
  identity += std::to_string(encoded.size());
  const auto digest = sha256(std::as_bytes(std::span(identity)));
  return {reinterpret_cast<const char*>(digest.data()), profile_id_bytes};
}

using Samples = std::vector<const Sample*>;

/// Samples of one process and one measure: what a Profile of OTLP holds.
using Parts = std::map<std::pair<Index, Measure>, Samples>;

Parts parts_of(const Profile& profile) {
  Parts parts;
  for (const Sample& sample : profile.samples)
    parts[{sample.process, sample.measure}].push_back(&sample);
  return parts;
}

/// Encodes a profile, or one part of it after the other.
class Otlp {
 public:
  Otlp(const Profile& profile, const EncodeOptions& options)
      : profile_(profile),
        off_cpu_period_(options.off_cpu_period),
        chosen_(options.attributes),
        with_tid_(chosen_.has(otlp::thread_id_key)),
        with_thread_name_(chosen_.has(otlp::thread_name_key)),
        with_cpu_(chosen_.has(otlp::cpu_key)),
        with_trace_id_(chosen_.names(otlp::trace_id_key)),
        with_span_id_(chosen_.names(otlp::span_id_key)),
        keys_(profile, options.label_prefix, reserved(), "", clean_),
        dictionary_(profile, options.otlp_compact, clean_),
        label_sets_(profile.label_sets.size(), dictionary_.message()) {}

  /// A whole message of `parts`. Its rows are in rows_written().
  std::string bytes(const Parts& parts, bool with_remarks) {
    begin();
    std::map<Index, std::vector<std::string>>
        profiles;  // encoded; what was replaced is known after
    for (const auto& [key, samples] : parts)
      profiles[key.first].push_back(key.second == Measure::on_cpu ? on_cpu(samples)
                                                                  : off_cpu(samples));
    std::map<Index, std::string> resources;
    for (const auto& [process, encoded] : profiles)
      resources[process] = resource(entry(profile_.processes, process));
    const std::int32_t remarks = with_remarks && !profiles.empty() ? remarks_attribute() : 0;

    std::string out;
    Writer data(out);
    for (auto& [process, encoded] : profiles) {
      Writer resource_profiles(data, otlp::data::resource_profiles);
      resource_profiles.add_message(otlp::resource_profiles::resource, resources[process]);
      Writer scope_profiles(resource_profiles, otlp::resource_profiles::scope_profiles);
      telemetry::add_scope(scope_profiles, otlp::scope_profiles::scope);
      for (std::string& one : encoded) {
        const std::string id = profile_id(resources[process], one);
        Writer message(one);
        if (remarks != 0) add_indices(message, otlp::profile::attribute_indices, {remarks});
        message.add_bytes(otlp::profile::profile_id, id);
        scope_profiles.add_message(otlp::scope_profiles::profiles, one);
      }
      scope_profiles.add_string(otlp::scope_profiles::schema_url, telemetry::conventions);
      scope_profiles.commit();
      resource_profiles.add_string(otlp::resource_profiles::schema_url, telemetry::conventions);
    }
    Writer dictionary(data, otlp::data::dictionary);
    dictionary_.write(dictionary);
    dictionary.commit();
    return out;
  }

  /// Samples of OTLP in the last message: each sample of the profile that differs by more than its time.
  [[nodiscard]] std::size_t rows_written() const { return rows_written_; }

 private:
  [[nodiscard]] std::set<std::string, std::less<>> reserved() const {
    std::set<std::string, std::less<>> keys{otlp::thread_id_key, otlp::thread_name_key,
                                            otlp::cpu_key};
    if (with_trace_id_) keys.insert(otlp::trace_id_key);
    if (with_span_id_) keys.insert(otlp::span_id_key);
    return keys;
  }

  void begin() {
    dictionary_.begin();
    rows_written_ = 0;
    attribute_set_places_ = {{{}, 0}};
    attribute_sets_ = {&attribute_set_places_.begin()->first};
    tids_.clear();
    cpus_.clear();
    thread_names_.clear();
  }

  // ---- samples

  /// A position in `attribute_sets_`: 0 is the empty one.
  std::int32_t label_set(Index index) {
    if (index >= label_sets_.size()) return 0;
    std::int32_t& place = label_sets_[index];
    if (place >= 0) return place;
    std::vector<std::int32_t> attributes;
    for (const Label& label : profile_.label_sets[index])
      if (const std::string& key = keys_.of(label.key); chosen_.has(key))
        attributes.push_back(dictionary_.attribute(key, label.value));
    std::sort(attributes.begin(), attributes.end());
    const auto [known, added] = attribute_set_places_.try_emplace(
        std::move(attributes), static_cast<std::int32_t>(attribute_sets_.size()));
    if (added) attribute_sets_.push_back(&known->first);
    return place = known->second;
  }

  /// The attribute of a small number, remembered: there are three a sample.
  std::int32_t number_attribute(FlatIndex& known, std::string_view key, std::uint32_t number) {
    const std::uint32_t place = known.find(number);
    if (place != FlatIndex::none) return static_cast<std::int32_t>(place);
    const std::int32_t made = dictionary_.attribute(key, number);
    known.insert(number, static_cast<std::uint32_t>(made));
    return made;
  }

  std::int32_t thread_name(const std::string& name) {
    if (name.empty()) return 0;
    const auto [known, added] = thread_names_.try_emplace(name, 0);
    if (added) known->second = dictionary_.attribute(otlp::thread_name_key, name);
    return known->second;
  }

  Row row_of(const Sample& sample) {
    const auto place = [](std::int32_t index) { return static_cast<std::uint32_t>(index); };
    return {place(dictionary_.stack(sample.stack)),
            place(dictionary_.link(sample.link)),
            place(label_set(sample.labels)),
            place(with_tid_ ? number_attribute(tids_, otlp::thread_id_key, sample.tid) : 0),
            place(with_thread_name_ ? thread_name(sample.thread_name) : 0),
            place(with_cpu_ ? number_attribute(cpus_, otlp::cpu_key, sample.cpu) : 0)};
  }

  /// The ids of `index` once more as texts, where they were asked for.
  void add_trace(std::vector<std::int32_t>& attributes, Index index) {
    const Link* from = entry(profile_.links, index);
    if (from == nullptr || *from == Link{}) return;
    if (with_trace_id_)
      attributes.push_back(dictionary_.attribute(otlp::trace_id_key, hex_text(from->trace_id)));
    if (with_span_id_)
      attributes.push_back(dictionary_.attribute(otlp::span_id_key, hex_text(from->span_id)));
  }

  Rows rows(const Samples& samples) {
    Rows out;
    std::pmr::monotonic_buffer_resource memory;
    std::pmr::unordered_map<Row, std::uint32_t, IndicesHash> known(&memory);
    known.reserve(samples.size());
    std::vector<std::uint32_t> row_of_sample;
    row_of_sample.reserve(samples.size());
    for (const Sample* sample : samples) {
      const Row row = row_of(*sample);
      const auto [at, added] = known.try_emplace(row, static_cast<std::uint32_t>(out.rows.size()));
      if (added) out.rows.push_back(row);
      row_of_sample.push_back(at->second);
    }
    out.begins.resize(out.rows.size() + 1);
    for (const std::uint32_t row : row_of_sample) ++out.begins[row + 1];
    std::partial_sum(out.begins.begin(), out.begins.end(), out.begins.begin());
    out.samples.resize(samples.size());
    std::vector<std::size_t> next(out.begins.begin(), out.begins.end() - 1);
    for (std::size_t i = 0; i < samples.size(); ++i)
      out.samples[next[row_of_sample[i]]++] = samples[i];
    return out;
  }

  void add_value_type(Writer& profile, Tag tag, std::string_view type, std::string_view unit) {
    std::string encoded;
    Writer message(encoded);
    add_number(message, otlp::value_type::type_strindex, dictionary_.string(type));
    add_number(message, otlp::value_type::unit_strindex, dictionary_.string(unit));
    profile.add_message(tag, encoded);
  }

  /// The samples, and a time range that holds them all: clocks of several CPUs differ a little.
  void add_samples(Writer& profile, const Samples& samples, Shape shape) {
    std::uint64_t first = profile_.start_ns, end = profile_.start_ns + profile_.duration_ns;
    for (const Sample* sample : samples) {
      first = std::min(first, sample->time_ns);
      end = std::max(end, sample->time_ns + 1);
    }
    const Rows all = rows(samples);
    rows_written_ += all.rows.size();
    std::vector<std::int32_t> attributes;
    std::vector<std::uint64_t> times;
    std::vector<std::int64_t> values;
    for (std::size_t i = 0; i < all.rows.size(); ++i) {
      const Row& row = all.rows[i];
      attributes = *attribute_sets_[row[labels_at]];
      for (const Identity one : {tid_at, thread_name_at, cpu_at})
        if (row[one] != 0) attributes.push_back(static_cast<std::int32_t>(row[one]));
      add_trace(attributes, all.samples[all.begins[i]]->link);
      times.clear(), values.clear();
      for (std::size_t k = all.begins[i]; k < all.begins[i + 1]; ++k) {
        const Sample& sample = *all.samples[k];
        if (shape == Shape::counts || shape == Shape::sums) {
          values.push_back(as_signed(shape == Shape::counts ? sample.count : sample.value_ns));
          continue;
        }
        for (const Sample& one : each_of(profile_, sample)) {
          times.push_back(one.time_ns);
          if (shape == Shape::times_and_values) values.push_back(as_signed(one.value_ns));
        }
      }
      Writer message(profile, otlp::profile::samples);
      add_number(message, otlp::sample::stack_index, row[stack_at]);
      add_indices(message, otlp::sample::attribute_indices, attributes);
      add_number(message, otlp::sample::link_index, row[link_at]);
      if (shape == Shape::counts || shape == Shape::sums)
        values = {std::accumulate(values.begin(), values.end(), std::int64_t{0}, saturated_sum)};
      if (shape != Shape::times)
        message.add_packed_int64(otlp::sample::values, values.begin(), values.end());
      if (shape == Shape::times || shape == Shape::times_and_values)
        message.add_packed_fixed64(otlp::sample::timestamps_unix_nano, times.begin(), times.end());
    }
    profile.add_fixed64(otlp::profile::time_unix_nano, first);
    profile.add_uint64(otlp::profile::duration_nano, end - first);
  }

  std::string on_cpu(const Samples& samples) {
    std::string encoded;
    Writer profile(encoded);
    const bool sums = profile_.span_ns == 0 && std::ranges::any_of(samples, [](const Sample* one) {
                        return one->count != 1;
                      });
    // Those of merged profiles of several frequencies are not, nor are all of other producers.
    const auto period = static_cast<std::uint64_t>(period_ns(profile_));
    const bool are_ticks = std::ranges::all_of(
        samples, [&](const Sample* one) { return one->value_ns == one->count * period; });
    if (are_ticks) {
      add_value_type(profile, otlp::profile::sample_type, "samples", "count");
      add_samples(profile, samples, sums ? Shape::counts : Shape::times);
    } else {
      add_value_type(profile, otlp::profile::sample_type, "cpu", "nanoseconds");
      add_samples(profile, samples, sums ? Shape::sums : Shape::times_and_values);
    }
    add_value_type(profile, otlp::profile::period_type, "cpu", "nanoseconds");
    add_number(profile, otlp::profile::period, period_ns(profile_));
    return encoded;
  }

  std::string off_cpu(const Samples& samples) {
    std::string encoded;
    Writer profile(encoded);
    add_value_type(profile, otlp::profile::sample_type, "off_cpu", "nanoseconds");
    add_samples(profile, samples, Shape::times_and_values);
    if (off_cpu_period_)
      add_value_type(profile, otlp::profile::period_type, "off_cpu", "nanoseconds");
    else
      profile.add_message(otlp::profile::period_type, "", 0);  // Parca wants one, Pyroscope none
    return encoded;
  }

  // ---- the rest

  /// What the process declares of itself comes before what is known from outside: it may be in a
  /// namespace where its pid is another.
  std::string resource(const Process* process) {
    std::string encoded;
    if (process == nullptr) return encoded;
    Writer message(encoded);
    std::unordered_set<std::string> known;
    const auto add = [&](std::string_view key, std::string_view text) {
      const std::string clean_key = clean_(key);
      if (clean_key.empty() || text.empty() || !known.insert(clean_key).second) return;
      // Without its name, engines cannot distinguish services.
      if (clean_key != otlp::service_name_key && !chosen_.has(clean_key)) return;
      telemetry::add_attribute(message, otlp::resource::attributes, clean_key,
                               resource_value(key, text));
    };
    for (const Attribute& attribute : process->resource) add(attribute.key, attribute.value);
    add(otlp::pid_key, std::to_string(process->pid));
    const std::string_view path = process->executable;
    add(otlp::executable_path_key, path);
    add(otlp::executable_name_key, path.empty() ? process->command : std::string(file_name(path)));
    return encoded;
  }

  /// By the semantic conventions, a pid is a number.
  telemetry::Value resource_value(std::string_view key, std::string_view text) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (key == otlp::pid_key && error == std::errc{} && end == text.data() + text.size())
      return number;
    return clean_(text);
  }

  /// What was lost or went wrong, as the attribute "vitrine.remarks"; 0: nothing.
  std::int32_t remarks_attribute() {
    std::vector<std::string> texts = remarks(profile_);
    texts.insert(texts.end(), keys_.renamed().begin(), keys_.renamed().end());
    if (clean_.replaced() > 0)
      texts.emplace_back("some text was not UTF-8: its bytes are shown as U+FFFD");
    if (texts.empty()) return 0;
    for (std::string& text : texts) text = clean_(text);
    return dictionary_.attribute_of(otlp::remarks_key, telemetry::encode_value(std::move(texts)));
  }

  const Profile& profile_;
  bool off_cpu_period_;
  AttributeChoice chosen_;
  bool with_tid_, with_thread_name_, with_cpu_, with_trace_id_, with_span_id_;
  CleanText clean_;
  ExportedKeys keys_;

  // Of the message that is being written.
  OtlpDictionaryWriter dictionary_;
  std::size_t rows_written_ = 0;
  Places label_sets_;
  std::map<std::vector<std::int32_t>, std::int32_t> attribute_set_places_;
  std::vector<const std::vector<std::int32_t>*> attribute_sets_;
  FlatIndex tids_, cpus_;
  std::unordered_map<std::string, std::int32_t> thread_names_;
};

/// protobuf's messages are smaller than 2 GiB.
constexpr std::size_t largest_message = std::numeric_limits<std::int32_t>::max();

/// Samples of one measure, those of a process beside each other.
using SamplesOfMeasure = std::span<const Sample* const>;

Parts parts_of(SamplesOfMeasure samples) {
  Parts parts;
  for (const Sample* sample : samples) parts[{sample->process, sample->measure}].push_back(sample);
  return parts;
}

/// Encodes `samples` as one request, or pieces of them until none is larger than the limits.
void add_requests(Requests& out, Otlp& encoder, SamplesOfMeasure samples,
                  const RequestLimits& limits) {
  const bool first = out.bodies.empty();
  const Parts parts = parts_of(samples);
  std::string body = encoder.bytes(parts, first);
  const std::size_t too_many =
      std::max(body.size() / limits.bytes, encoder.rows_written() / limits.rows);
  if (body.size() <= limits.bytes && encoder.rows_written() <= limits.rows) {
    out.bodies.push_back(std::move(body));
    return;
  }
  if (samples.size() == 1) {
    if (first) body = encoder.bytes(parts, false);
    if (body.size() <= limits.bytes)
      out.bodies.push_back(std::move(body));
    else
      ++out.too_large;
    return;
  }
  std::string().swap(body);  // an assignment would keep its memory
  const std::size_t pieces = std::min(samples.size(), too_many + 1);
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const std::size_t begin = samples.size() * piece / pieces;
    const std::size_t end = samples.size() * (piece + 1) / pieces;
    add_requests(out, encoder, samples.subspan(begin, end - begin), limits);
  }
}

/// Puts processes together while their samples cannot exceed the rows of a request: what is encoded at once
/// stays small, and few requests are encoded again in pieces.
void add_requests(Requests& out, Otlp& encoder, const Parts& parts, Measure measure,
                  const RequestLimits& limits) {
  Samples together;
  const auto send = [&] {
    if (!together.empty()) add_requests(out, encoder, together, limits);
    together.clear();
  };
  for (const auto& [key, samples] : parts) {
    if (key.second != measure) continue;
    if (limits.one_process || samples.size() > limits.rows - std::min(together.size(), limits.rows))
      send();
    together.insert(together.end(), samples.begin(), samples.end());
  }
  send();
}

}  // namespace

Result<std::string> encode_otlp(const Profile& profile, const EncodeOptions& options) {
  std::string out = Otlp(profile, options).bytes(parts_of(profile), true);
  if (out.size() > largest_message)
    return fail(ErrorCode::limit, "the profile exceeds 2 GiB, the limit of protobuf",
                "profile for a shorter time, or filter it");
  return out;
}

Requests encode_otlp_requests(const Profile& profile, const EncodeOptions& options,
                              const RequestLimits& limits) {
  const RequestLimits bounded{std::clamp<std::size_t>(limits.bytes, 1, largest_message),
                              std::max<std::size_t>(limits.rows, 1), limits.one_process};
  Requests out;
  Otlp encoder(profile, options);
  const Parts parts = parts_of(profile);
  for (const Measure measure : {Measure::on_cpu, Measure::off_cpu})
    add_requests(out, encoder, parts, measure, bounded);
  return out;
}

Result<Requests> split_otlp_request(std::string_view request, EncodeOptions options) {
  const Profile profile = TRY(decode_otlp(request));
  // Labels have the names already that they were given.
  options.label_prefix.clear();
  options.attributes = options.attributes.without_requests();  // ids are labels now
  const std::size_t half = std::max<std::size_t>(request.size() / 2, 1);
  return encode_otlp_requests(profile, options, {half, profile.samples.size()});
}

}  // namespace vitrine::profile
