// pprof: a gzipped Profile of github.com/google/pprof/proto/profile.proto
// (docs/formats/profiles.md, "pprof").
//
// What its users expect, beyond the fields: the count of samples is the first sample type; the first
// mapping is the main program; a key is either of strings or of numbers, and a sample has it once.
// Samples with the same stack, labels and ids are one. Ids of a trace are the labels trace_id and
// span_id in hex; thread_id and pid are numbers; process and thread_name are comm.
#include <algorithm>
#include <protozero/pbf_writer.hpp>
#include <unordered_map>

#include "base/gzip.hpp"
#include "base/interner.hpp"
#include "base/text.hpp"
#include "profile/encode.hpp"

namespace vitrine::profile {
namespace {

// profile.proto, by message.
enum class ProfileField : protozero::pbf_tag_type {
  sample_type = 1,
  sample,
  mapping,
  location,
  function,
  string_table,
  time_nanos = 9,
  duration_nanos,
  period_type,
  period,
  comment,
  default_sample_type,
};
namespace value_type {
constexpr protozero::pbf_tag_type type = 1, unit = 2;
}
namespace sample_field {
constexpr protozero::pbf_tag_type location_id = 1, value = 2, label = 3;
}
namespace label_field {
constexpr protozero::pbf_tag_type key = 1, str = 2, num = 3;
}
namespace mapping_field {
constexpr protozero::pbf_tag_type id = 1, start = 2, limit = 3, offset = 4, filename = 5,
                                  build_id = 6, has_functions = 7, has_filenames = 8,
                                  has_line_numbers = 9, has_inline_frames = 10;
}
namespace location_field {
constexpr protozero::pbf_tag_type id = 1, mapping_id = 2, address = 3, line = 4;
}
namespace line_field {
constexpr protozero::pbf_tag_type function_id = 1, line = 2;
}
namespace function_field {
constexpr protozero::pbf_tag_type id = 1, name = 2, system_name = 3, filename = 4, start_line = 5;
}

constexpr protozero::pbf_tag_type tag(ProfileField field) {
  return static_cast<protozero::pbf_tag_type>(field);
}

struct Symbolised {  ///< what the locations of a mapping have: pprof asks nobody else for it then
  bool functions = false, files = false, lines = false, inlines = false;
};

/// Samples that are the same, as one.
struct SampleRow {
  const Sample* first = nullptr;
  std::int64_t count = 0, on_cpu_ns = 0, off_cpu_ns = 0;
};

class Pprof {
 public:
  Pprof(const Profile& profile, const EncodeOptions& options)
      : profile_(profile),
        measures_(measures_of(profile)),
        keys_(profile, options.label_prefix, reserved(profile), "pprof::", clean_),
        label_texts_(profile.label_sets.size()),
        location_ids_(profile.locations.size()),
        function_ids_(profile.functions.size()),
        mapping_ids_(profile.mappings.size()) {
    string("");
    pid_ = string("pid");
    process_ = string("process");
    thread_id_ = string("thread_id");
    thread_name_ = string("thread_name");
  }

  std::string bytes() {
    write_sample_types();
    write_mappings();
    for (const SampleRow& row : merged()) write_sample(row);
    write_head();
    out_ += locations_ + functions_;
    protozero::pbf_writer writer(out_);
    for (const std::string& text : strings_.values())
      writer.add_string(tag(ProfileField::string_table), text);
    return std::move(out_);
  }

 private:
  using Writer = protozero::pbf_writer;

  static std::set<std::string, std::less<>> reserved(const Profile& profile) {
    std::set<std::string, std::less<>> names{"pid", "process", "thread_id", "thread_name"};
    // Programs without a trace context publish ids as labels, with the meaning of ours.
    if (!profile.links.empty()) names.insert({"trace_id", "span_id"});
    return names;
  }

  std::int64_t string(std::string_view bytes) { return strings_.add(clean_(bytes)); }

  void write_value_type(ProfileField field, std::string_view type, std::string_view unit) {
    Writer writer(out_);
    Writer value(writer, tag(field));
    value.add_int64(value_type::type, string(type));
    value.add_int64(value_type::unit, string(unit));
  }

  void write_sample_types() {
    write_value_type(ProfileField::sample_type, "samples", "count");
    if (measures_.on_cpu) write_value_type(ProfileField::sample_type, "cpu", "nanoseconds");
    if (measures_.off_cpu) write_value_type(ProfileField::sample_type, "off_cpu", "nanoseconds");
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
    Writer message(writer, tag(ProfileField::mapping));
    message.add_uint64(mapping_field::id, mapping_ids_[index]);
    message.add_uint64(mapping_field::start, mapping.start);
    message.add_uint64(mapping_field::limit, mapping.limit);
    message.add_uint64(mapping_field::offset, mapping.file_offset);
    message.add_int64(mapping_field::filename, string(mapping.file));
    message.add_int64(mapping_field::build_id, string(mapping.build_id));
    message.add_bool(mapping_field::has_functions, has.functions);
    message.add_bool(mapping_field::has_filenames, has.files);
    message.add_bool(mapping_field::has_line_numbers, has.lines);
    message.add_bool(mapping_field::has_inline_frames, has.inlines);
  }

  std::uint64_t write_function(const Function& function) {
    Writer writer(functions_);
    Writer message(writer, tag(ProfileField::function));
    const std::string& name = function.name.empty() ? function.system_name : function.name;
    message.add_uint64(function_field::id, ++function_count_);
    message.add_int64(function_field::name, string(name));
    message.add_int64(function_field::system_name,
                      string(function.system_name.empty() ? name : function.system_name));
    message.add_int64(function_field::filename, string(function.file));
    message.add_int64(function_field::start_line, function.start_line);
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
    Writer message(writer, tag(ProfileField::location));
    message.add_uint64(location_field::id, id);
    if (location.mapping < mapping_ids_.size())
      message.add_uint64(location_field::mapping_id, mapping_ids_[location.mapping]);
    message.add_uint64(location_field::address, location.address);
    for (const Line& line : location.lines) {
      if (entry(profile_.functions, line.function) == nullptr) continue;
      Writer part(message, location_field::line);
      part.add_uint64(line_field::function_id, function_id(line.function));
      part.add_int64(line_field::line, line.line);
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
    Writer message(writer, tag(ProfileField::location));
    message.add_uint64(location_field::id, id);
    Writer part(message, location_field::line);
    part.add_uint64(line_field::function_id, called);
    return id;
  }

  std::int64_t thread_name(const std::string& name) {
    const auto [known, added] = thread_names_.try_emplace(name, 0);
    if (added) known->second = string(name);
    return known->second;
  }

  std::vector<SampleRow> merged() {
    std::vector<SampleRow> rows;
    std::unordered_map<std::array<std::uint32_t, 6>, std::size_t, IndicesHash> places;
    places.reserve(profile_.samples.size());
    for (const Sample& sample : profile_.samples) {
      const auto name = static_cast<std::uint32_t>(thread_name(sample.thread_name));
      const auto [place, added] = places.try_emplace(
          {sample.stack, sample.labels, sample.link, sample.process, sample.tid, name},
          rows.size());
      if (added) rows.push_back({.first = &sample});
      SampleRow& row = rows[place->second];
      ++row.count;
      std::int64_t& total = sample.measure == Measure::on_cpu ? row.on_cpu_ns : row.off_cpu_ns;
      total = as_signed(static_cast<std::uint64_t>(total) +
                        static_cast<std::uint64_t>(as_signed(sample.value_ns)));
    }
    return rows;
  }

  void write_sample(const SampleRow& row) {
    const Sample& sample = *row.first;
    std::vector<std::uint64_t> ids;
    if (const Stack* stack = entry(profile_.stacks, sample.stack)) {
      for (const Index location : stack->locations)
        if (location < location_ids_.size()) ids.push_back(location_id(location));
      if (const std::uint64_t mark = mark_id(stack->end); mark != 0) ids.push_back(mark);
    }
    std::vector<std::int64_t> values{row.count};
    if (measures_.on_cpu) values.push_back(row.on_cpu_ns);
    if (measures_.off_cpu) values.push_back(row.off_cpu_ns);
    Writer writer(out_);
    Writer message(writer, tag(ProfileField::sample));
    message.add_packed_uint64(sample_field::location_id, ids.begin(), ids.end());
    message.add_packed_int64(sample_field::value, values.begin(), values.end());
    write_labels(message, sample);
  }

  struct LabelText {
    std::int64_t key, value;
  };

  const std::vector<LabelText>& texts_of(Index labels) {
    std::vector<LabelText>& texts = label_texts_[labels];
    const LabelSet& set = profile_.label_sets[labels];
    if (texts.empty())
      for (const Label& label : set)
        texts.push_back(
            {string(keys_.of(label.key)),
             // Text 0 is no text, and a second empty one does not outlive pprof's merging.
             string(label.value.empty() ? "(empty)" : label.value)});
    return texts;
  }

  void add_text(Writer& sample, std::int64_t key, std::int64_t value) {
    Writer label(sample, sample_field::label);
    label.add_int64(label_field::key, key);
    label.add_int64(label_field::str, value);
  }

  void add_number(Writer& sample, std::int64_t key, std::uint32_t value) {
    Writer label(sample, sample_field::label);
    label.add_int64(label_field::key, key);
    label.add_int64(label_field::num, value);
  }

  void write_labels(Writer& message, const Sample& sample) {
    if (entry(profile_.label_sets, sample.labels) != nullptr)
      for (const LabelText& text : texts_of(sample.labels)) add_text(message, text.key, text.value);
    if (const Link* link = entry(profile_.links, sample.link)) {
      add_text(message, string("trace_id"), string(hex_text(link->trace_id)));
      add_text(message, string("span_id"), string(hex_text(link->span_id)));
    }
    if (const Process* process = entry(profile_.processes, sample.process)) {
      add_number(message, pid_, process->pid);
      if (!process->command.empty()) add_text(message, process_, string(process->command));
    }
    add_number(message, thread_id_, sample.tid);
    if (!sample.thread_name.empty())
      add_text(message, thread_name_, thread_name(sample.thread_name));
  }

  /// Fields after the samples: by now it is known what was replaced.
  void write_head() {
    if (measures_.on_cpu) write_value_type(ProfileField::period_type, "cpu", "nanoseconds");
    std::vector<std::int64_t> comments{string("vitrine profile")};
    for (const std::string& remark : remarks(profile_)) comments.push_back(string(remark));
    for (const std::string& renamed : keys_.renamed()) comments.push_back(string(renamed));
    if (clean_.replaced() > 0)
      comments.push_back(string("some text was not UTF-8: its bytes are shown as U+FFFD"));
    Writer writer(out_);
    writer.add_int64(tag(ProfileField::time_nanos), as_signed(profile_.start_ns));
    writer.add_int64(tag(ProfileField::duration_nanos), as_signed(profile_.duration_ns));
    writer.add_int64(tag(ProfileField::period), period_ns(profile_));
    writer.add_packed_int64(tag(ProfileField::comment), comments.begin(), comments.end());
    writer.add_int64(tag(ProfileField::default_sample_type),
                     string(measures_.on_cpu ? "cpu" : "off_cpu"));
  }

  const Profile& profile_;
  Measures measures_;
  CleanText clean_;
  ExportedKeys keys_;
  StringInterner strings_;
  std::unordered_map<std::string, std::int64_t> thread_names_;
  std::int64_t pid_ = 0, process_ = 0, thread_id_ = 0, thread_name_ = 0;  ///< keys that many have
  std::vector<std::vector<LabelText>> label_texts_;  ///< of each set that was met
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
