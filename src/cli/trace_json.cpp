#include "cli/trace_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>

#include "cli/trace_text.hpp"
#include "cli/units.hpp"
#include "cli/value_json.hpp"

namespace vitrine::cli {
namespace {

// A Json object costs some twenty allocations an event. What is in every event is therefore written
// as it is, as far as it needs no escapes; all else is left to Json, which has the rules.

void append_json(std::string& out, const Json& json) {
  out += json_text(json);
}

/// As json_bytes().
void append_text(std::string& out, std::string_view bytes) {
  const bool plain = std::all_of(bytes.begin(), bytes.end(), [](char c) {
    return c >= ' ' && c <= '~' && c != '"' && c != '\\';
  });
  if (!plain) return append_json(out, json_bytes(bytes));
  out += '"';
  out += bytes;
  out += '"';
}

/// As json_value().
void append_value(std::string& out, const probe::Value& value) {
  constexpr std::int64_t exact = std::int64_t{1} << 32;  // well within what JSON has
  if (const auto* text = std::get_if<probe::StringValue>(&value))
    return append_text(out, text->text);
  if (const auto* number = std::get_if<std::int64_t>(&value);
      number && *number<exact&& * number> - exact)
    return append_number(out, *number);
  if (const auto* number = std::get_if<std::uint64_t>(&value);
      number && *number < std::uint64_t{exact})
    return append_number(out, *number);
  append_json(out, json_value(value));
}

bool is_cut(const probe::Value& value) {
  if (const auto* text = std::get_if<probe::StringValue>(&value)) return text->truncated;
  const auto* bytes = std::get_if<probe::BytesValue>(&value);
  return bytes != nullptr && bytes->truncated;
}

/// {"a":1,"b":2} as ,"a":1,"b":2
std::string more_members(const Json& object) {
  std::string text = object.empty() ? std::string() : json_text(object);
  if (text.empty()) return text;
  text.front() = ',';
  text.pop_back();
  return text;
}

void append_arguments(std::string& out, const std::vector<observe::FiredArgument>& arguments) {
  out += ",\"args\":[";
  bool named = false;
  for (const observe::FiredArgument& argument : arguments) {
    if (&argument != arguments.data()) out += ',';
    named = named || !argument.name.empty();
    if (argument.value)
      append_value(out, *argument.value);
    else
      out += "null";
  }
  out += ']';
  if (!named) return;
  out += ",\"arg_names\":[";
  for (const observe::FiredArgument& argument : arguments) {
    if (&argument != arguments.data()) out += ',';
    if (argument.name.empty())
      out += "null";
    else
      append_text(out, argument.name);
  }
  out += ']';
}

Json labels_json(const format::LabelSet& set) {
  Json object;
  add_labels(object, set);
  return object;
}

/// What few events have.
Json flaws_json(const observe::TraceEvent& event) {
  Json object;
  if (!event.labels_error.empty()) object["labels_error"] = json_bytes(event.labels_error);
  for (const observe::StackFrame& frame : event.stack) object["stack"].push_back(to_json(frame));
  std::vector<format::Truncation> truncated = event.labels->truncated;
  for (std::size_t i = 0; i < event.arguments.size(); ++i)
    if (const auto& value = event.arguments[i].value; value && is_cut(*value))
      truncated.push_back({fmt::format("args[{}]", i), "there was more of it"});
  if (event.cut) truncated.push_back({"event", "the event was full"});
  add_flaws(object, truncated,
            format::texts(event.labels->defects, event.labels->defects_left_out));
  return object;
}

}  // namespace

TraceJson::TraceJson() : wall_clock_ns_(wall_clock_offset_ns()) {}

void TraceJson::append(const observe::TraceEvent& event, std::string& out) {
  out += "{\"ts_ns\":\"";
  append_number(out, static_cast<std::int64_t>(event.time_ns) + wall_clock_ns_);
  out += "\",\"pid\":";
  append_number(out, event.pid);
  out += ",\"tid\":";
  append_number(out, event.tid);
  out += ",\"cpu\":";
  append_number(out, event.cpu);
  out += ",\"comm\":";
  append_text(out, event.comm);
  out += ",\"probe\":";
  append_text(out, event.probe);
  out += ",\"module\":";
  append_text(out, event.module);
  out += ",\"site\":";
  append_text(out, hex(event.site));
  append_arguments(out, event.arguments);
  out +=
      labels_.of(event, [](const format::LabelSet& set) { return more_members(labels_json(set)); });
  out += more_members(flaws_json(event));
  out += "}\n";
}

}  // namespace vitrine::cli
