// pprof: a gzipped Profile of github.com/google/pprof/proto/profile.proto
// (docs/formats/profiles.md, "pprof").
//
// What its users expect, beyond the fields: the count of samples is the first sample type; the first
// mapping is the main program; a key is either of strings or of numbers, and a sample has it once.
// Samples with the same stack, labels and ids are one. Ids of a trace are the labels trace_id and
// span_id in hex; thread_id and pid are numbers; process and thread_name are comm.
#include "profile/pprof.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>
#include <span>
#include <string_view>
#include <unordered_map>

#include "base/gzip.hpp"
#include "base/interner.hpp"
#include "base/text.hpp"
#include "profile/encode.hpp"

namespace vitrine::profile {
namespace {

using Tag = protozero::pbf_tag_type;

/// What the locations of a mapping have: pprof needs no other source for it then.
struct Symbolised {
  bool functions = false, files = false, lines = false, inlines = false;
};

/// A few fields of numbers, before they are where they belong: a message that is opened in the output is moved there when
/// it is closed, as its length comes first.
class FewFields {
 public:
  /// Begins a message of so many bytes.
  void begin(Tag field, std::size_t size) {
    put(field << 3 | static_cast<std::uint32_t>(protozero::pbf_wire_type::length_delimited));
    put(size);
  }
  void put(std::uint64_t number) { at_ += protozero::write_varint(at_, number); }
  void add_label(std::int64_t key, std::int64_t text) {
    const auto name = static_cast<std::uint64_t>(key), value = static_cast<std::uint64_t>(text);
    begin(pprof::sample::label, 2U + static_cast<std::size_t>(protozero::length_of_varint(name) +
                                                              protozero::length_of_varint(value)));
    put(pprof::label::key << 3);
    put(name);
    put(pprof::label::str << 3);
    put(value);
  }
  [[nodiscard]] std::string_view bytes() const {
    return {bytes_.data(), static_cast<std::size_t>(at_ - bytes_.data())};
  }

 private:
  std::array<char, 128> bytes_;
  char* at_ = bytes_.data();
};

/// The texts of a file, as it has them: each is written when it gets its number.
class StringTable {
 public:
  /// The number of a text, the same each time.
  std::int64_t add(std::string text) {
    const Index at = known_.add(std::move(text));
    if (at == numbers_.size()) numbers_.push_back(append(known_.values()[at]));
    return numbers_[at];
  }

  /// Of a text that the caller asks for once.
  std::int64_t append(std::string_view text) {
    protozero::pbf_writer(bytes_).add_string(pprof::profile::string_table, text.data(),
                                             text.size());
    return count_++;
  }

  /// The same of an ID in hex, digit by digit where it belongs: as many as there are samples.
  std::int64_t append_hex(std::span<const std::uint8_t> id) {
    FewFields field;
    field.begin(pprof::profile::string_table, 2 * id.size());
    put_hex(std::as_bytes(id), [&](char digit) { field.put(static_cast<unsigned char>(digit)); });
    bytes_ += field.bytes();
    return count_++;
  }

  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  StringInterner known_;
  std::vector<std::int64_t> numbers_;  ///< of those
  std::int64_t count_ = 0;
  std::string bytes_;
};

/// Not mix(), to which many ids can easily be made alike.
struct TraceHash {
  std::size_t operator()(const std::array<std::uint8_t, 16>& trace) const {
    return std::hash<std::string_view>{}(
        {reinterpret_cast<const char*>(trace.data()), trace.size()});
  }
};

/// Samples that are the same, as one.
struct SampleRow {
  const Sample* first = nullptr;
  Index thread = 0;
  std::int64_t count = 0, on_cpu_ns = 0, off_cpu_ns = 0;
};

/// More than most samples and the texts of most links take.
constexpr std::size_t sample_bytes = 128, link_bytes = 64;

class Pprof {
 public:
  Pprof(const Profile& profile, const EncodeOptions& options)
      : profile_(profile),
        measures_(measures_of(profile)),
        keys_(profile, options.label_prefix, reserved(profile), "pprof::", clean_),
        stack_fields_(profile.stacks.size()),
        label_fields_(profile.label_sets.size()),
        link_texts_(profile.links.size()),
        location_ids_(profile.locations.size()),
        function_ids_(profile.functions.size()),
        mapping_ids_(profile.mappings.size()) {
    string("");
    pid_ = string(pprof::pid_key);
    process_ = string(pprof::process_key);
    thread_id_ = string(pprof::thread_id_key);
    thread_name_ = string(pprof::thread_name_key);
    strings_.reserve(profile.links.size() * link_bytes);
    if (profile.links.empty()) return;
    trace_id_ = string(pprof::trace_id_key);
    span_id_ = string(pprof::span_id_key);
  }

  std::string bytes() {
    write_sample_types();
    write_mappings();
    const std::vector<SampleRow> rows = merged();
    out_.reserve(out_.size() + rows.size() * sample_bytes);
    for (const SampleRow& row : rows) write_sample(row);
    write_head();
    out_ += locations_;
    out_ += functions_;
    out_ += strings_.bytes();
    return std::move(out_);
  }

 private:
  using Writer = protozero::pbf_writer;

  static std::set<std::string, std::less<>> reserved(const Profile& profile) {
    std::set<std::string, std::less<>> names{pprof::pid_key, pprof::process_key,
                                             pprof::thread_id_key, pprof::thread_name_key};
    // Programs without a trace context publish ids as labels, with the same meaning.
    if (!profile.links.empty()) names.insert({pprof::trace_id_key, pprof::span_id_key});
    return names;
  }

  std::int64_t string(std::string_view bytes) { return strings_.add(clean_(bytes)); }

  void write_value_type(Tag field, std::string_view type, std::string_view unit) {
    Writer writer(out_);
    Writer value(writer, field);
    value.add_int64(pprof::value_type::type, string(type));
    value.add_int64(pprof::value_type::unit, string(unit));
  }

  void write_sample_types() {
    write_value_type(pprof::profile::sample_type, "samples", "count");
    if (measures_.on_cpu) write_value_type(pprof::profile::sample_type, "cpu", "nanoseconds");
    if (measures_.off_cpu) write_value_type(pprof::profile::sample_type, "off_cpu", "nanoseconds");
  }

  /// Whether a stack of the samples goes through it.
  std::vector<bool> locations_met() const {
    std::vector<bool> stacks(profile_.stacks.size()), met(profile_.locations.size());
    for (const Sample& sample : profile_.samples)
      if (entry(profile_.stacks, sample.stack) != nullptr) stacks[sample.stack] = true;
    for (std::size_t i = 0; i < stacks.size(); ++i)
      if (stacks[i])
        for (const Index location : profile_.stacks[i].locations)
          if (location < met.size()) met[location] = true;
    return met;
  }

  /// The program that the first sample is of; none where it has no mapping.
  Index main_mapping() const {
    const Sample* first = profile_.samples.empty() ? nullptr : &profile_.samples.front();
    const Process* process = entry(profile_.processes, first == nullptr ? 0 : first->process);
    if (process == nullptr || process->executable.empty()) return none;
    Index found = none;
    for (Index i = 0; i < profile_.mappings.size(); ++i)
      if (profile_.mappings[i].file == process->executable &&
          (found == none || profile_.mappings[i].start < profile_.mappings[found].start))
        found = i;
    return found;
  }

  void write_mappings() {
    std::vector<Symbolised> has(profile_.mappings.size());
    std::vector<bool> met(profile_.mappings.size());
    const std::vector<bool> locations = locations_met();
    for (std::size_t i = 0; i < locations.size(); ++i) {
      const Location& location = profile_.locations[i];
      if (!locations[i] || location.mapping >= met.size()) continue;
      met[location.mapping] = true;
      Symbolised& what = has[location.mapping];
      what.inlines |= location.lines.size() > 1;
      for (const Line& line : location.lines) {
        const Function* function = entry(profile_.functions, line.function);
        what.functions |= function != nullptr;
        what.files |= function != nullptr && !function->file.empty();
        what.lines |= line.line != 0;
      }
    }
    const Index main = main_mapping();
    if (main != none) write_mapping(main, has[main]);
    for (Index i = 0; i < met.size(); ++i)
      if (met[i] && i != main) write_mapping(i, has[i]);
  }

  void write_mapping(Index index, Symbolised has) {
    const Mapping& mapping = profile_.mappings[index];
    mapping_ids_[index] = ++mappings_;
    Writer writer(out_);
    Writer message(writer, pprof::profile::mapping);
    message.add_uint64(pprof::mapping::id, mapping_ids_[index]);
    message.add_uint64(pprof::mapping::start, mapping.start);
    message.add_uint64(pprof::mapping::limit, mapping.limit);
    message.add_uint64(pprof::mapping::offset, mapping.file_offset);
    message.add_int64(pprof::mapping::filename, string(mapping.file));
    message.add_int64(pprof::mapping::build_id, string(mapping.build_id));
    message.add_bool(pprof::mapping::has_functions, has.functions);
    message.add_bool(pprof::mapping::has_filenames, has.files);
    message.add_bool(pprof::mapping::has_line_numbers, has.lines);
    message.add_bool(pprof::mapping::has_inline_frames, has.inlines);
  }

  std::uint64_t write_function(const Function& function) {
    Writer writer(functions_);
    Writer message(writer, pprof::profile::function);
    const std::string& name = function.name.empty() ? function.system_name : function.name;
    message.add_uint64(pprof::function::id, ++function_count_);
    message.add_int64(pprof::function::name, string(name));
    message.add_int64(pprof::function::system_name,
                      string(function.system_name.empty() ? name : function.system_name));
    message.add_int64(pprof::function::filename, string(function.file));
    message.add_int64(pprof::function::start_line, function.start_line);
    return function_count_;
  }

  std::uint64_t function_id(Index index) {
    std::uint64_t& id = function_ids_[index];
    return id != 0 ? id : id = write_function(profile_.functions[index]);
  }

  std::uint64_t location_id(Index index) {
    std::uint64_t& id = location_ids_[index];
    if (id != 0) return id;
    id = ++location_count_;
    const Location& location = profile_.locations[index];
    Writer writer(locations_);
    Writer message(writer, pprof::profile::location);
    message.add_uint64(pprof::location::id, id);
    if (location.mapping < mapping_ids_.size())
      message.add_uint64(pprof::location::mapping_id, mapping_ids_[location.mapping]);
    message.add_uint64(pprof::location::address, location.address);
    for (const Line& line : location.lines) {
      if (entry(profile_.functions, line.function) == nullptr) continue;
      Writer part(message, pprof::location::line);
      part.add_uint64(pprof::line::function_id, function_id(line.function));
      part.add_int64(pprof::line::line, line.line);
    }
    return id;
  }

  /// The frame that marks stacks of this end; 0: they are whole.
  std::uint64_t mark_id(StackEnd end) {
    const std::string_view mark = end_mark(end);
    if (mark.empty()) return 0;
    std::uint64_t& id = mark_ids_[mark];
    if (id != 0) return id;
    id = ++location_count_;
    Function function;
    function.name = mark;
    const std::uint64_t called = write_function(function);
    Writer writer(locations_);
    Writer message(writer, pprof::profile::location);
    message.add_uint64(pprof::location::id, id);
    Writer part(message, pprof::location::line);
    part.add_uint64(pprof::line::function_id, called);
    return id;
  }

  std::int64_t thread_name(const std::string& name) {
    const auto [known, added] = thread_names_.try_emplace(name, 0);
    if (added) known->second = string(name);
    return known->second;
  }

  std::vector<SampleRow> merged() {
    std::vector<SampleRow> rows;
    rows.reserve(profile_.samples.size());
    Interner<std::array<std::uint32_t, 4>, IndicesHash> places;
    const std::string* last_name = nullptr;
    std::uint32_t name = 0;
    for (const Sample& sample : profile_.samples) {
      if (last_name == nullptr || *last_name != sample.thread_name)
        name = static_cast<std::uint32_t>(thread_name(sample.thread_name));
      last_name = &sample.thread_name;
      const Index thread = threads_.add(std::array{sample.process, sample.tid, name});
      const Index place = places.add(std::array{sample.stack, sample.labels, sample.link, thread});
      if (place == rows.size()) rows.push_back({.first = &sample, .thread = thread});
      SampleRow& row = rows[place];
      row.count = as_signed(static_cast<std::uint64_t>(row.count) + sample.count);
      std::int64_t& total = sample.measure == Measure::on_cpu ? row.on_cpu_ns : row.off_cpu_ns;
      total = as_signed(static_cast<std::uint64_t>(total) +
                        static_cast<std::uint64_t>(as_signed(sample.value_ns)));
    }
    thread_fields_.resize(threads_.size());
    return rows;
  }

  void write_sample(const SampleRow& row) {
    const Sample& sample = *row.first;
    std::array<std::string_view, 5> parts;
    if (entry(profile_.stacks, sample.stack) != nullptr) parts[0] = stack_field(sample.stack);
    FewFields values, link, head;
    add_values(row, values);
    parts[1] = values.bytes();
    if (entry(profile_.label_sets, sample.labels) != nullptr)
      parts[2] = label_fields(sample.labels);
    if (entry(profile_.links, sample.link) != nullptr) add_link(sample.link, link);
    parts[3] = link.bytes();
    parts[4] = thread_fields(row);
    std::size_t size = 0;
    for (const std::string_view part : parts) size += part.size();
    head.begin(pprof::profile::sample, size);
    out_ += head.bytes();
    for (const std::string_view part : parts) out_ += part;
  }

  void add_values(const SampleRow& row, FewFields& into) const {
    std::array<std::uint64_t, 3> values{static_cast<std::uint64_t>(row.count)};
    std::size_t count = 1;
    if (measures_.on_cpu) values[count++] = static_cast<std::uint64_t>(row.on_cpu_ns);
    if (measures_.off_cpu) values[count++] = static_cast<std::uint64_t>(row.off_cpu_ns);
    int size = 0;
    for (std::size_t i = 0; i < count; ++i) size += protozero::length_of_varint(values[i]);
    into.begin(pprof::sample::value, static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < count; ++i) into.put(values[i]);
  }

  // Fields of a sample that others have as well, each written once.

  const std::string& stack_field(Index stack) {
    std::string& field = stack_fields_[stack];
    if (!field.empty()) return field;
    std::vector<std::uint64_t> ids;
    for (const Index location : profile_.stacks[stack].locations)
      if (location < location_ids_.size()) ids.push_back(location_id(location));
    if (const std::uint64_t mark = mark_id(profile_.stacks[stack].end); mark != 0)
      ids.push_back(mark);
    Writer(field).add_packed_uint64(pprof::sample::location_id, ids.begin(), ids.end());
    return field;
  }

  const std::string& label_fields(Index labels) {
    std::string& fields = label_fields_[labels];
    const LabelSet& set = profile_.label_sets[labels];
    if (fields.empty())
      for (const Label& label : set)
        add_text(fields, string(keys_.of(label.key)),
                 // Text 0 is no text, and a second empty one does not outlive pprof's merging.
                 string(label.value.empty() ? pprof::empty_value : label.value));
    return fields;
  }

  const std::string& thread_fields(const SampleRow& row) {
    std::string& fields = thread_fields_[row.thread];
    if (!fields.empty()) return fields;
    const Sample& sample = *row.first;
    if (const Process* process = entry(profile_.processes, sample.process)) {
      add_number(fields, pid_, process->pid);
      if (const std::int64_t command = string(process->command); command != 0)
        add_text(fields, process_, command);
    }
    add_number(fields, thread_id_, sample.tid);
    if (!sample.thread_name.empty())
      add_text(fields, thread_name_, thread_name(sample.thread_name));
    return fields;
  }

  /// A trace has one text, and each of its spans.
  void add_link(Index index, FewFields& into) {
    LinkTexts& texts = link_texts_[index];
    if (texts.span == 0) {
      const Link& link = profile_.links[index];
      const Index trace = traces_.add(link.trace_id);
      if (trace == trace_texts_.size()) trace_texts_.push_back(strings_.append_hex(link.trace_id));
      texts = {trace_texts_[trace], strings_.append_hex(link.span_id)};
    }
    into.add_label(trace_id_, texts.trace);
    into.add_label(span_id_, texts.span);
  }

  static void add_text(std::string& sample, std::int64_t key, std::int64_t value) {
    Writer writer(sample);
    Writer label(writer, pprof::sample::label);
    label.add_int64(pprof::label::key, key);
    label.add_int64(pprof::label::str, value);
  }

  static void add_number(std::string& sample, std::int64_t key, std::uint32_t value) {
    Writer writer(sample);
    Writer label(writer, pprof::sample::label);
    label.add_int64(pprof::label::key, key);
    label.add_int64(pprof::label::num, value);
  }

  /// Fields after the samples: by now it is known what was replaced.
  void write_head() {
    // A file has one period: that of the clock, unless nothing was sampled by it.
    write_value_type(pprof::profile::period_type, measures_.on_cpu ? "cpu" : "off_cpu",
                     "nanoseconds");
    std::vector<std::int64_t> comments{string(pprof::origin)};
    for (const std::string& remark : remarks(profile_)) comments.push_back(string(remark));
    for (const std::string& renamed : keys_.renamed()) comments.push_back(string(renamed));
    if (clean_.replaced() > 0)
      comments.push_back(string("some text was not UTF-8: its bytes are shown as U+FFFD"));
    Writer writer(out_);
    writer.add_int64(pprof::profile::time_nanos, as_signed(profile_.start_ns));
    writer.add_int64(pprof::profile::duration_nanos, as_signed(profile_.duration_ns));
    writer.add_int64(pprof::profile::period, measures_.on_cpu ? period_ns(profile_) : 1);
    writer.add_packed_int64(pprof::profile::comment, comments.begin(), comments.end());
    writer.add_int64(pprof::profile::default_sample_type,
                     string(measures_.on_cpu ? "cpu" : "off_cpu"));
  }

  const Profile& profile_;
  Measures measures_;
  CleanText clean_;
  ExportedKeys keys_;
  StringTable strings_;
  std::unordered_map<std::string, std::int64_t> thread_names_;
  std::int64_t pid_ = 0, process_ = 0, thread_id_ = 0, thread_name_ = 0;  ///< keys that many have
  std::int64_t trace_id_ = 0, span_id_ = 0;                               ///< where there are links
  std::vector<std::string> stack_fields_, label_fields_, thread_fields_;  ///< empty: not met
  Interner<std::array<std::uint32_t, 3>, IndicesHash> threads_;  ///< process, ID and name of each
  struct LinkTexts {
    std::int64_t trace = 0, span = 0;  ///< 0: not met
  };
  std::vector<LinkTexts> link_texts_;
  Interner<std::array<std::uint8_t, 16>, TraceHash> traces_;
  std::vector<std::int64_t> trace_texts_;                                 ///< of those
  std::vector<std::uint64_t> location_ids_, function_ids_, mapping_ids_;  ///< 0: not written
  std::unordered_map<std::string_view, std::uint64_t> mark_ids_;
  std::uint64_t mappings_ = 0, location_count_ = 0, function_count_ = 0;
  std::string out_, locations_, functions_;
};

}  // namespace

Result<std::string> encode_pprof(const Profile& profile, const EncodeOptions& options) {
  return gzip(Pprof(profile, options).bytes());
}

}  // namespace vitrine::profile
