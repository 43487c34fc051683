#include "cli/trace_text.hpp"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>

#include "cli/json.hpp"
#include "cli/units.hpp"

namespace vitrine::cli {
namespace {

// Columns grow with what they hold up to these; a longer one pushes only its own line.
constexpr std::size_t widest_thread = 28;
constexpr std::size_t widest_probe = 56;

std::int64_t nanoseconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

std::string in_quotes(std::string_view bytes) {
  std::string out = "\"";
  for (const char c : printable(bytes)) {
    if (c == '"') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string bytes_text(const probe::BytesValue& value) {
  std::string out;
  for (const std::byte byte : value.bytes)
    out += fmt::format("{}{:02x}", out.empty() ? "" : " ", static_cast<unsigned>(byte));
  return '[' + out + (value.truncated ? " …]" : "]");
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
    return value.name.empty() ? std::to_string(value.value) : printable(value.name);
  }
  std::string operator()(const probe::StringValue& value) const {
    return in_quotes(value.text) + (value.truncated ? "…" : "");
  }
  std::string operator()(const probe::BytesValue& value) const { return bytes_text(value); }
  std::string operator()(const probe::ValueError& error) const {
    return '<' + printable(error.message) + '>';
  }
};

std::string thread_text(const observe::TraceEvent& event) {
  const std::string ids = event.tid == event.pid ? std::to_string(event.pid)
                                                 : fmt::format("{}/{}", event.pid, event.tid);
  return printable(event.comm) + ' ' + ids;
}

std::string probe_text(const observe::TraceEvent& event, const Style& style) {
  std::string out = style.bold(printable(event.probe)) + '(';
  bool first = true;
  for (const observe::FiredArgument& argument : event.arguments) {
    if (!first) out += ", ";
    first = false;
    if (!argument.name.empty()) out += printable(argument.name) + '=';
    if (!argument.value) {
      out += '-';
      continue;
    }
    const std::string text = value_text(*argument.value, argument.format);
    const bool failed = std::holds_alternative<probe::ValueError>(*argument.value);
    out += failed ? style.red(text) : text;
  }
  return out + ')';
}

std::string padded(const std::string& text, std::size_t& widest, std::size_t most) {
  const std::size_t columns = width(text);
  widest = std::max(widest, std::min(columns, most));
  return text + std::string(columns < widest ? widest - columns : 0, ' ');
}

}  // namespace

std::string value_text(const probe::Value& value, query::Format format) {
  const auto number = query::number_of(value);
  if (number && format == query::Format::duration)
    return duration_text(query::to_double(*number), shows_utf8());
  if (number && format == query::Format::hex)
    return std::visit(
        [](auto n) {
          if constexpr (std::is_floating_point_v<decltype(n)>)
            return fmt::format("{:a}", n);
          else
            return hex(static_cast<std::uint64_t>(n));
        },
        *number);
  if (number && format == query::Format::decimal)
    return std::visit([](auto n) { return fmt::format("{}", n); }, *number);
  return std::visit(PlainText{}, value);
}

std::int64_t wall_clock_offset_ns() {
  return nanoseconds(CLOCK_REALTIME) - nanoseconds(CLOCK_MONOTONIC);
}

TraceText::TraceText(const Style& style) : style_(style), wall_clock_ns_(wall_clock_offset_ns()) {}

std::string TraceText::time(std::uint64_t monotonic_ns) const {
  const std::int64_t ns = static_cast<std::int64_t>(monotonic_ns) + wall_clock_ns_;
  const std::time_t seconds = ns / 1'000'000'000;
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:02}:{:02}:{:02}.{:06}", local.tm_hour, local.tm_min, local.tm_sec,
                     ns / 1000 % 1'000'000);
}

std::string TraceText::labels(const observe::TraceEvent& event) const {
  std::string out;
  const auto add = [&](const std::string& item) { out += (out.empty() ? "" : " ") + item; };
  for (const format::Label& label : event.labels->labels)
    add(style_.cyan(delimited(label.key)) + '=' + delimited(label.value));
  if (event.labels->trace)
    add(style_.dim("trace=" + hex_id(event.labels->trace->trace_id) + '/' +
                   hex_id(event.labels->trace->span_id)));
  for (const format::Truncation& cut : event.labels->truncated)
    add(style_.yellow(fmt::format("({} cut: {})", cut.what, printable(cut.detail))));
  if (!event.labels_error.empty())
    add(style_.yellow(fmt::format("(no labels: {})", printable(event.labels_error))));
  if (event.cut) add(style_.yellow("(cut: the event was full)"));
  return out;
}

std::string TraceText::line(const observe::TraceEvent& event) {
  std::string out = style_.dim(time(event.time_ns)) + "  " +
                    padded(thread_text(event), thread_width_, widest_thread) + "  ";
  const std::string its_labels = labels(event);
  const std::string probe = probe_text(event, style_);
  out += its_labels.empty() ? probe : padded(probe, probe_width_, widest_probe) + "  " + its_labels;
  out += '\n';
  for (const std::uint64_t address : event.stack) out += "    " + style_.dim(hex(address)) + '\n';
  return out;
}

}  // namespace vitrine::cli
