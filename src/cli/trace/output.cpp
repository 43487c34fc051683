#include "cli/trace/output.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <time.h>

#include <algorithm>
#include <concepts>
#include <utility>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "cli/output/json.hpp"
#include "cli/output/text.hpp"

namespace vitrine::cli {
namespace {

// Columns grow with what they hold up to these; a longer one pushes only its own line.
constexpr std::size_t widest_thread = 28;
constexpr std::size_t widest_probe = 56;
constexpr std::size_t brief_digits = 12;  // of a container's ID

std::string in_quotes(std::string_view bytes) {
  std::string out = "\"";
  for (const char c : printable(bytes)) {
    if (c == '"') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string bytes_text(const probe::BytesValue& value) {
  return '[' + hex_text(value.bytes, " ") + (value.truncated ? " …]" : "]");
}

struct PlainText {
  std::string operator()(std::int64_t number) const { return std::to_string(number); }
  std::string operator()(std::uint64_t number) const { return std::to_string(number); }
  std::string operator()(double number) const { return fmt::format("{}", number); }
  std::string operator()(bool truth) const { return truth ? "true" : "false"; }
  std::string operator()(const probe::PointerValue& pointer) const {
    return pointer.address == 0 ? "NULL" : hex(pointer.address);
  }
  std::string operator()(const probe::EnumeratorValue& value) const {
    if (!value.name.empty()) return printable(value.name);
    return value.with_number([](auto number) { return std::to_string(number); });
  }
  std::string operator()(const probe::StringValue& value) const {
    return in_quotes(value.text) + (value.truncated ? "…" : "");
  }
  std::string operator()(const probe::BytesValue& value) const { return bytes_text(value); }
  std::string operator()(const probe::ListValue& value) const {
    return '[' + printable(fmt::format("{}", fmt::join(value.items, ", "))) + ']';
  }
  std::string operator()(const probe::ValueError& error) const {
    return '<' + printable(error.message) + '>';
  }
};

void append_thread(const observe::TraceEvent& event, std::string& out) {
  out += printable(event.comm);
  out += ' ';
  append_number(out, event.pid);
  if (event.tid == event.pid) return;
  out += '/';
  append_number(out, event.tid);
}

bool is_below(const observe::FiredArgument& argument) {
  return argument.value && std::holds_alternative<probe::ListValue>(*argument.value);
}

void append_probe(std::string_view probe, const std::vector<observe::FiredArgument>& arguments,
                  const Style& style, std::string& out) {
  out += style.bold(printable(probe));
  out += '(';
  bool first = true;
  for (const observe::FiredArgument& argument : arguments) {
    if (is_below(argument)) continue;
    if (!std::exchange(first, false)) out += ", ";
    if (!argument.name.empty()) {
      out += printable(argument.name);
      out += '=';
    }
    if (!argument.value) {
      out += '-';
      continue;
    }
    const std::string text = value_text(*argument.value, argument.format, argument.width);
    const bool failed = std::holds_alternative<probe::ValueError>(*argument.value);
    out += failed ? style.red(text) : text;
  }
  out += ')';
}

/// "shop::pay(Order const&)+0x12  (vitrine-demo-service)", of an inlined function "shop::total()
/// inlined  (vitrine-demo-service)".
std::string frame_text(const symbol::StackFrame& frame, const Style& style) {
  std::string where = frame.function.empty() ? hex(frame.address) : printable(frame.function);
  if (frame.inlined)
    where += "  inlined";
  else if (!frame.function.empty() && frame.offset)
    where += '+' + hex(*frame.offset);
  const std::string file(file_name(frame.module));
  return where + "  " + style.dim('(' + (file.empty() ? "?" : printable(file)) + ')');
}

/// Fills the column that begins at `begin` up to its width, and two spaces behind it.
void pad(std::string& out, std::size_t begin, std::size_t& widest, std::size_t most) {
  const std::size_t columns = width(std::string_view(out).substr(begin));
  widest = std::max(widest, std::min(columns, most));
  out.append((columns < widest ? widest - columns : 0) + 2, ' ');
}

std::string six_digits(std::int64_t number) {
  std::string text(6, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, number /= 10)
    *digit = static_cast<char>('0' + number % 10);
  return text;
}

/// A negative number in as many bytes as it has, if they hold it.
std::string hex_of(std::int64_t number, std::uint8_t width) {
  if (width == 0 || width >= sizeof number || number >= 0)
    return hex(static_cast<std::uint64_t>(number));
  const unsigned unused = 64 - 8U * width;
  const std::uint64_t cut = static_cast<std::uint64_t>(number) << unused >> unused;
  const bool fits = static_cast<std::int64_t>(cut << unused) >> unused == number;
  return hex(fits ? cut : static_cast<std::uint64_t>(number));
}

}  // namespace

std::string value_text(const probe::Value& value, query::Format format, std::uint8_t width) {
  const auto number = query::number_of(value);
  if (number && format == query::Format::duration)
    return duration_text(query::to_double(*number), shows_utf8());
  if (number && format == query::Format::hex)
    return std::visit(
        [&](auto n) {
          if constexpr (std::is_floating_point_v<decltype(n)>)
            return fmt::format("{:a}", n);
          else if constexpr (std::is_signed_v<decltype(n)>)
            return hex_of(n, width);
          else
            return hex(n);
        },
        *number);
  if (const auto* text = std::get_if<probe::StringValue>(&value);
      text != nullptr && format == query::Format::brief)
    return printable(std::string_view(text->text).substr(0, brief_digits));
  if (number && format == query::Format::decimal)
    return std::visit([](auto n) { return fmt::format("{}", n); }, *number);
  return std::visit(PlainText{}, value);
}

void TraceText::append_time(std::uint64_t monotonic_ns, std::string& out) {
  const std::int64_t ns = static_cast<std::int64_t>(monotonic_ns) + clock_.offset_at(monotonic_ns);
  const std::time_t second = ns / 1'000'000'000;
  if (second != second_) {
    std::tm local{};
    localtime_r(&second, &local);
    second_text_ = fmt::format("{:02}:{:02}:{:02}.", local.tm_hour, local.tm_min, local.tm_sec);
    second_ = second;
  }
  out += style_.dim(second_text_ + six_digits(ns / 1000 % 1'000'000));
}

std::string TraceText::set_text(const format::LabelSet& set) const {
  std::string out;
  const auto add = [&](const std::string& item) { out += (out.empty() ? "" : " ") + item; };
  for (const format::Label& label : set.labels)
    add(style_.cyan(delimited(label.key)) + '=' + delimited(label.value));
  if (set.trace)
    add(style_.dim("trace=" + hex_text(set.trace->trace_id) + '/' + hex_text(set.trace->span_id)));
  for (const format::Truncation& cut : set.truncated)
    add(style_.yellow(fmt::format("({} cut: {})", cut.what, printable(cut.detail))));
  return out;
}

/// After the probe, which begins at `begin` of `out`.
void TraceText::append_labels(const observe::TraceEvent& event, std::size_t begin,
                              std::string& out) {
  bool first = true;
  const auto add = [&](const std::string& item) {
    if (std::exchange(first, false))
      pad(out, begin, probe_width_, widest_probe);
    else
      out += ' ';
    out += item;
  };
  const std::string& set =
      labels_.of(event, [&](const format::LabelSet& labels) { return set_text(labels); });
  if (!set.empty()) add(set);
  if (!event.labels_error.empty())
    add(style_.yellow(fmt::format("({} labels: {})", set.empty() ? "no" : "not all",
                                  printable(event.labels_error))));
  if (event.cut) add(style_.yellow("(cut: the event was full)"));
}

void TraceText::append(const observe::TraceEvent& event, std::string& out) {
  append_time(event.time_ns, out);
  out += "  ";
  const std::size_t thread = out.size();
  append_thread(event, out);
  pad(out, thread, thread_width_, widest_thread);
  const std::size_t probe = out.size();
  if (event.start) {
    const std::uint64_t took = event.time_ns - event.start->time_ns;
    out += style_.yellow(duration_text(static_cast<double>(took), shows_utf8())) + "  ";
    append_probe(event.start->probe, event.start->arguments, style_, out);
    if (event.start->cut) out += style_.yellow(" (cut: the arguments had no room)");
    out += shows_utf8() ? " → " : " -> ";
  }
  append_probe(event.probe, event.arguments, style_, out);
  append_labels(event, probe, out);
  out += '\n';
  for (const observe::FiredArgument& argument : event.arguments)
    if (is_below(argument))
      for (const std::string& item : std::get<probe::ListValue>(*argument.value).items)
        out += "    " + printable(item) + '\n';
  for (const symbol::StackFrame& frame : event.stack)
    out += "    " + frame_text(frame, style_) + '\n';
}

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
  for (const symbol::StackFrame& frame : event.stack) object["stack"].push_back(to_json(frame));
  std::vector<format::Truncation> truncated = event.labels->truncated;
  for (std::size_t i = 0; i < event.arguments.size(); ++i)
    if (const auto& value = event.arguments[i].value; value && probe::is_cut(*value))
      truncated.push_back({fmt::format("args[{}]", i), "there was more of it"});
  if (event.start) {
    const auto& arguments = event.start->arguments;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].value && is_cut(*arguments[i].value))
        truncated.push_back({fmt::format("start.args[{}]", i), "there was more of it"});
    if (event.start->cut) truncated.push_back({"start.args", "the arguments had no room"});
  }
  if (event.cut) truncated.push_back({"event", "the event was full"});
  add_flaws(object, truncated,
            format::texts(event.labels->defects, event.labels->defects_left_out));
  return object;
}

}  // namespace

void TraceJson::append(const observe::TraceEvent& event, std::string& out) {
  const std::int64_t wall_clock_ns = clock_.offset_at(event.time_ns);
  out += "{\"ts_ns\":\"";
  append_number(out, static_cast<std::int64_t>(event.time_ns) + wall_clock_ns);
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
  if (event.start) {
    out += ",\"duration_ns\":";
    append_number(out, event.time_ns - event.start->time_ns);
    out += ",\"start\":{\"ts_ns\":\"";
    append_number(out, static_cast<std::int64_t>(event.start->time_ns) + wall_clock_ns);
    out += "\",\"probe\":";
    append_text(out, event.start->probe);
    out += ",\"module\":";
    append_text(out, event.start->module);
    out += ",\"site\":";
    append_text(out, hex(event.start->site));
    append_arguments(out, event.start->arguments);
    out += '}';
  }
  out +=
      labels_.of(event, [](const format::LabelSet& set) { return more_members(labels_json(set)); });
  out += more_members(flaws_json(event));
  out += "}\n";
}

}  // namespace vitrine::cli
