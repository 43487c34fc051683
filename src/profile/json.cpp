// NDJSON: one sample a line, in the order of the profile; the last line describes the whole.
//
// {"ts_ns","measure":"on_cpu|off_cpu","value_ns","pid","tid","cpu","comm","process",
//  "labels":[{"key","value"}], "trace_id" and "span_id" where the thread worked for a trace,
//  "frames":[{"address","function","file","line","module", and where so "inlined":true,
//             "kind":"kernel|jit|unknown", "problem"}], leaf first,
//  "count" where the line is of several samples,
//  and where the stack is not whole "end":"truncated|depth|other_stack|out_of_reach|unread|no_rule|
//  bad|gone"}
// {"summary":{"start_ns","duration_ns","frequency","samples","lost","truncated_stacks","stack_ends":{END:N},
//             "truncated_labels","unread_labels","unnamed","processes":[{"pid","comm","executable",
//             "resource":[{"key","value"}]}],"problems":[…]}}
//
// Flat, for engines that make a row of each line: the same, but times and sums are numbers, labels an
// object, "count", "trace_id", "span_id" and "end" always there, the names of the functions alone
// ("stack", leaf first), "resource" of the process on each line, and no last line. Text that is not
// UTF-8 has U+FFFD.
#include "base/json.hpp"

#include <algorithm>

#include "base/label_keys.hpp"
#include "base/memory.hpp"
#include "base/text.hpp"
#include "profile/encode.hpp"

namespace vitrine::profile {
namespace {

std::string_view name(Measure measure) {
  return measure == Measure::on_cpu ? "on_cpu" : "off_cpu";
}

std::string_view name(FrameKind kind) {
  switch (kind) {
    case FrameKind::native:
      return "native";
    case FrameKind::kernel:
      return "kernel";
    case FrameKind::jit:
      return "jit";
    case FrameKind::unknown:
      break;
  }
  return "unknown";
}

std::string_view name(StackEnd end) {
  switch (end) {
    case StackEnd::outermost:
      return "outermost";
    case StackEnd::truncated:
      return "truncated";
    case StackEnd::depth:
      return "depth";
    case StackEnd::other_stack:
      return "other_stack";
    case StackEnd::out_of_reach:
      return "out_of_reach";
    case StackEnd::unread:
      return "unread";
    case StackEnd::no_rule:
      return "no_rule";
    case StackEnd::gone:
      return "gone";
    case StackEnd::bad:
      break;
  }
  return "bad";
}

/// Samples by the end of their stack; only ends that there are.
Json ends_of(const Profile& profile) {
  const auto counts = count_ends(profile);
  Json ends = Json::object();
  for (std::size_t end = 0; end < counts.size(); ++end)
    if (counts[end] != 0) ends[std::string(name(static_cast<StackEnd>(end)))] = counts[end];
  return ends;
}

Json text_or_null(std::string_view text) {
  return text.empty() ? Json() : json_bytes(text);
}

/// The frames of a location, as elements of "frames".
void add_frames(Json& frames, const Profile& profile, const Location& location) {
  const Mapping* mapping = entry(profile.mappings, location.mapping);
  const std::size_t count = std::max<std::size_t>(location.lines.size(), 1);
  for (std::size_t i = 0; i < count; ++i) {
    const Line line = location.lines.empty() ? Line{} : location.lines[i];
    const Function* function = entry(profile.functions, line.function);
    Json frame = {{"address", hex(location.address)},
                  {"function", function == nullptr ? Json() : text_or_null(function->name)},
                  {"file", function == nullptr ? Json() : text_or_null(function->file)},
                  {"line", line.line == 0 ? Json() : Json(line.line)},
                  {"module", mapping == nullptr ? Json() : text_or_null(mapping->file)}};
    if (i + 1 < count) frame["inlined"] = true;
    if (location.kind != FrameKind::native) frame["kind"] = name(location.kind);
    if (!location.problem.empty()) frame["problem"] = json_bytes(location.problem);
    frames.push_back(std::move(frame));
  }
}

/// Fields of a line, without braces: a stack and a set of labels is written once and copied.
std::string fields(const Json& object) {
  const std::string text = json_text(object);
  return text.substr(1, text.size() - 2);
}

std::string stack_fields(const Profile& profile, const Stack* stack) {
  Json object = {{"frames", Json::array()}};
  if (stack == nullptr) return fields(object);
  for (const Index index : stack->locations)
    if (const Location* location = entry(profile.locations, index))
      add_frames(object["frames"], profile, *location);
  if (stack->end != StackEnd::outermost) object["end"] = name(stack->end);
  return fields(object);
}

template <class Pairs>
Json json_pairs(const Pairs& pairs) {
  Json out = Json::array();
  for (const auto& pair : pairs)
    out.push_back({{"key", json_bytes(pair.key)}, {"value", json_bytes(pair.value)}});
  return out;
}

std::string label_fields(const LabelSet* set) {
  return fields({{"labels", set == nullptr ? Json::array() : json_pairs(*set)}});
}

Json summary(const Profile& profile) {
  Json processes = Json::array();
  for (const Process& process : profile.processes)
    processes.push_back({{"pid", process.pid},
                         {"comm", json_bytes(process.command)},
                         {"executable", json_bytes(process.executable)},
                         {"resource", json_pairs(process.resource)}});
  Json problems = Json::array();
  for (const std::string& problem : profile.problems) problems.push_back(json_bytes(problem));
  const Losses& losses = profile.losses;
  return {{"summary",
           {{"start_ns", std::to_string(profile.start_ns)},
            {"duration_ns", std::to_string(profile.duration_ns)},
            {"frequency", profile.frequency},
            {"samples", number_of_samples(profile)},
            {"lost", losses.events},
            {"truncated_stacks", losses.truncated_stacks},
            {"stack_ends", ends_of(profile)},
            {"truncated_labels", losses.truncated_labels},
            {"unread_labels", losses.unread_labels},
            {"unnamed", losses.unnamed},
            {"processes", std::move(processes)},
            {"problems", std::move(problems)}}}};
}

std::string link_fields(const Link& link) {
  return fields({{"trace_id", hex_text(link.trace_id)}, {"span_id", hex_text(link.span_id)}});
}

// What both kinds of lines are made of. The fields of a stack, of labels and of a process are written
// once and copied.

struct JsonLines {
  struct Keys {
    explicit Keys(const Profile&) {}
  };

  static std::string head(const Sample& sample, const Process* process) {
    Json object = {
        {"ts_ns", std::to_string(sample.time_ns)},
        {"measure", name(sample.measure)},
        {"value_ns", json_integer(sample.value_ns)},
        {"pid", process == nullptr ? Json() : Json(process->pid)},
        {"tid", sample.tid},
        {"cpu", sample.cpu},
        {"comm", json_bytes(sample.thread_name)},
        {"process", process == nullptr ? Json() : json_bytes(process->command)},
    };
    if (sample.count != 1) object["count"] = json_integer(sample.count);
    return fields(object);
  }
  static std::string labels(const Keys&, const LabelSet* set) { return label_fields(set); }
  static std::string link(const Link* link) { return link == nullptr ? "" : link_fields(*link); }
  static std::string stack(const Profile& profile, const Stack* stack) {
    return stack_fields(profile, stack);
  }
  static std::string process(const Process*) { return {}; }
  static std::vector<Sample> samples(const Profile& profile, const Sample& sample) {
    return each_of(profile, sample);
  }
  static std::string summary(const Profile& profile) {
    return json_text(profile::summary(profile)) + '\n';
  }
};

/// Each line has the same fields of the same types, whatever the sample is.
struct FlatLines {
  static std::string text(std::string_view bytes) { return replaced_utf8(bytes); }

  /// Keys of labels, each with the same name in all lines.
  class Keys {
   public:
    explicit Keys(const Profile& profile) : names_(profile, {}, {}, {}, clean_) {}
    [[nodiscard]] std::string of(const std::string& key) const {
      return key.empty() ? std::string() : names_.of(key);  // a table may have an empty one
    }

   private:
    CleanText clean_;
    ExportedKeys names_;
  };

  static std::string head(const Sample& sample, const Process* process) {
    return fields({{"ts_ns", sample.time_ns},
                   {"measure", name(sample.measure)},
                   {"value_ns", sample.value_ns},
                   {"count", sample.count},
                   {"pid", process == nullptr ? 0 : process->pid},
                   {"tid", sample.tid},
                   {"cpu", sample.cpu},
                   {"comm", text(sample.thread_name)},
                   {"process", process == nullptr ? "" : text(process->command)}});
  }
  static std::string labels(const Keys& keys, const LabelSet* set) {
    Json object = Json::object();
    if (set != nullptr)
      for (const Label& label : *set) object.emplace(keys.of(label.key), text(label.value));
    return fields({{"labels", std::move(object)}});
  }
  static std::string link(const Link* link) {
    return link == nullptr ? fields({{"trace_id", ""}, {"span_id", ""}}) : link_fields(*link);
  }
  static std::string stack(const Profile& profile, const Stack* stack) {
    Json frames = Json::array();
    std::string scratch;
    if (stack != nullptr)
      for (const Index index : stack->locations)
        if (const Location* location = entry(profile.locations, index))
          for (const std::string_view frame : frame_names(profile, *location, scratch))
            frames.push_back(text(frame));
    return fields({{"stack", std::move(frames)},
                   {"end", name(stack == nullptr ? StackEnd::unread : stack->end)}});
  }
  static std::string process(const Process* process) {
    Json resource = Json::object();
    if (process != nullptr) {
      KeyNames names;
      for (const Attribute& attribute : process->resource)
        resource.emplace(names.add(attribute.key), text(attribute.value));
      resource.emplace("process.executable.path", text(process->executable));
    }
    return fields({{"resource", std::move(resource)}});
  }
  static std::vector<Sample> samples(const Profile&, const Sample& sample) { return {sample}; }
  static std::string summary(const Profile&) { return {}; }
};

/// Texts made of the entries of a table: each once, as long as they are not too many bytes together.
class EntryTexts {
  static constexpr std::size_t max_bytes = 4U << 20;

 public:
  explicit EntryTexts(std::size_t entries) : texts_(entries) {}

  template <class Make>
  const std::string& of(Index index, Make make) {
    if (index >= texts_.size()) {
      if (nothing_.empty()) nothing_ = make();
      return nothing_;
    }
    if (!texts_[index].empty()) return texts_[index];
    if (bytes_ > max_bytes) {
      std::vector<std::string>(texts_.size())
          .swap(texts_);  // a text that is only emptied keeps its memory
      bytes_ = 0;
    }
    texts_[index] = make();
    bytes_ += texts_[index].size();
    return texts_[index];
  }

 private:
  std::vector<std::string> texts_;
  std::string nothing_;
  std::size_t bytes_ = 0;
};

/// Calls `add` with each sample's line, in their order.
template <class Lines, class Add>
void for_each_line(const Profile& profile, Add add_line) {
  EntryTexts stacks(profile.stacks.size()), labels(profile.label_sets.size()),
      processes(profile.processes.size());
  const typename Lines::Keys keys(profile);
  std::string line;
  for (const Sample& sample : profile.samples) {
    const auto add = [&](const std::string& members) {
      if (!members.empty()) line += ',' + members;
    };
    const Process* process = entry(profile.processes, sample.process);
    line.clear();
    add(labels.of(sample.labels,
                  [&] { return Lines::labels(keys, entry(profile.label_sets, sample.labels)); }));
    add(Lines::link(entry(profile.links, sample.link)));
    add(stacks.of(sample.stack,
                  [&] { return Lines::stack(profile, entry(profile.stacks, sample.stack)); }));
    add(processes.of(sample.process, [&] { return Lines::process(process); }));
    line += "}\n";
    for (const Sample& one : Lines::samples(profile, sample))
      add_line('{' + Lines::head(one, process) + line);
  }
}

/// The lines in pieces of about so many bytes.
constexpr std::size_t piece_bytes = 256U << 10;

template <class Lines>
Result<void> encoded(const Profile& profile, const Sink& sink) {
  std::string piece;
  Result<void> done;
  for_each_line<Lines>(profile, [&](const std::string& line) {
    if (!done) return;
    piece += line;
    if (piece.size() < piece_bytes) return;
    done = sink(piece);
    piece.clear();
  });
  TRY(done);
  return sink(piece += Lines::summary(profile));
}

}  // namespace

Result<void> encode_json(const Profile& profile, const EncodeOptions&, const Sink& sink) {
  return encoded<JsonLines>(profile, sink);
}

Result<void> encode_json_flat(const Profile& profile, const EncodeOptions&, const Sink& sink) {
  return encoded<FlatLines>(profile, sink);
}

Requests encode_json_flat_requests(const Profile& profile, const RequestLimits& limits) {
  Requests out;
  std::size_t rows = 0;
  for_each_line<FlatLines>(profile, [&](const std::string& line) {
    if (line.size() > limits.bytes) {
      ++out.too_large;
      return;
    }
    if (out.bodies.empty() || rows >= limits.rows ||
        out.bodies.back().size() + line.size() > limits.bytes) {
      out.bodies.emplace_back();
      rows = 0;
    }
    out.bodies.back() += line;
    ++rows;
  });
  return out;
}

Requests split_json_flat_request(std::string_view request) {
  Requests out;
  // The end of the line in the middle, unless it is the last one.
  std::size_t end = request.find('\n', request.size() / 2);
  if (end == request.npos || end + 1 == request.size())
    end = request.size() < 2 ? request.npos : request.rfind('\n', request.size() - 2);
  if (end == request.npos) return out;
  out.bodies.emplace_back(request.substr(0, end + 1));
  out.bodies.emplace_back(request.substr(end + 1));
  return out;
}

}  // namespace vitrine::profile
