// NDJSON: one sample a line, in the order of the profile; the last line says how the whole was.
//
// {"ts_ns","measure":"on_cpu|off_cpu","value_ns","pid","tid","cpu","comm","process",
//  "labels":[{"key","value"}], "trace_id" and "span_id" where the thread worked for a trace,
//  "frames":[{"address","function","file","line","module", and where so "inlined":true,
//             "kind":"kernel|jit|unknown", "problem"}], leaf first,
//  and where the stack is not whole "end":"truncated|depth|other_stack|out_of_reach|unread|no_rule|
//  bad|gone"}
// {"summary":{"start_ns","duration_ns","frequency","samples","lost","truncated_stacks","stack_ends":{END:N},
//             "truncated_labels","unread_labels","unnamed","processes":[{"pid","comm","executable",
//             "resource":[{"key","value"}]}],"problems":[…]}}
#include "base/json.hpp"

#include <algorithm>

#include "base/memory.hpp"
#include "base/text.hpp"
#include "profile/encode.hpp"

namespace vitrine::profile {
namespace {

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

}  // namespace

Result<std::string> encode_json(const Profile& profile, const EncodeOptions&) {
  std::vector<std::string> stacks(profile.stacks.size());
  std::vector<std::string> labels(profile.label_sets.size());
  const std::string no_stack = stack_fields(profile, nullptr), no_labels = label_fields(nullptr);
  std::string out;
  for (const Sample& sample : profile.samples) {
    const Process* process = entry(profile.processes, sample.process);
    Json head = {
        {"ts_ns", std::to_string(sample.time_ns)},
        {"measure", sample.measure == Measure::on_cpu ? "on_cpu" : "off_cpu"},
        {"value_ns", json_integer(sample.value_ns)},
        {"pid", process == nullptr ? Json() : Json(process->pid)},
        {"tid", sample.tid},
        {"cpu", sample.cpu},
        {"comm", json_bytes(sample.thread_name)},
        {"process", process == nullptr ? Json() : json_bytes(process->command)},
    };
    if (sample.count != 1) head["count"] = json_integer(sample.count);
    out += '{' + fields(head) + ',';
    if (const LabelSet* set = entry(profile.label_sets, sample.labels)) {
      std::string& text = labels[sample.labels];
      if (text.empty()) text = label_fields(set);
      out += text;
    } else {
      out += no_labels;
    }
    if (const Link* link = entry(profile.links, sample.link))
      out += ',' +
             fields({{"trace_id", hex_text(link->trace_id)}, {"span_id", hex_text(link->span_id)}});
    out += ',';
    if (const Stack* stack = entry(profile.stacks, sample.stack)) {
      std::string& text = stacks[sample.stack];
      if (text.empty()) text = stack_fields(profile, stack);
      out += text;
    } else {
      out += no_stack;
    }
    out += "}\n";
  }
  return out + json_text(summary(profile)) + '\n';
}

}  // namespace vitrine::profile
