#include "observe/trace/records.hpp"

#include <limits>
#include <string>
#include <utility>
#include <variant>

#include "base/label_keys.hpp"
#include "base/text.hpp"

namespace vitrine::observe {
namespace {

using telemetry::Attributes;

struct ToAttribute {
  telemetry::Value operator()(std::int64_t number) const { return number; }
  telemetry::Value operator()(std::uint64_t number) const {
    if (number > std::numeric_limits<std::int64_t>::max()) return std::to_string(number);
    return static_cast<std::int64_t>(number);
  }
  telemetry::Value operator()(double number) const { return number; }
  telemetry::Value operator()(bool truth) const { return truth; }
  telemetry::Value operator()(const probe::PointerValue& pointer) const {
    return pointer.is_absent ? "NULL" : hex(pointer.address);  // as in metrics
  }
  telemetry::Value operator()(const probe::EnumeratorValue& value) const {
    if (value.name.empty()) return value.with_number(*this);
    return value.name;
  }
  telemetry::Value operator()(const probe::StringValue& value) const { return value.text; }
  telemetry::Value operator()(const probe::BytesValue& value) const {
    return telemetry::Blob{{reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()}};
  }
  telemetry::Value operator()(const probe::ListValue& value) const { return value.items; }
  telemetry::Value operator()(const probe::ValueError& error) const {
    return '<' + error.message + '>';
  }
};

/// Attributes, whose keys must differ, also once they are UTF-8: what comes first has its key.
class AttributeList {
 public:
  void add(std::string_view key, telemetry::Value value) {
    list_.push_back({names_.add(key), std::move(value)});
  }
  /// Those that are UTF-8 first: another one that looks like them is not called as they are.
  void add_labels(const std::vector<format::Label>& labels) {
    for (const bool as_it_is : {true, false})
      for (const format::Label& label : labels)
        if (is_utf8(label.key) == as_it_is) add(label.key, label.value);
  }
  void add_arguments(const std::string& prefix, const std::vector<FiredArgument>& arguments) {
    std::size_t index = 0;
    for (const FiredArgument& argument : arguments) {
      const std::string number = std::to_string(index++);
      if (!argument.value) continue;
      std::string key = prefix + (argument.name.empty() ? number : std::string(argument.name));
      if (names_.is_taken(key)) key = prefix + number;
      add(key, std::visit(ToAttribute{}, *argument.value));
    }
  }
  Attributes take() { return std::move(list_); }

 private:
  Attributes list_;
  KeyNames names_;
};

Attributes attributes_of(const TraceEvent& event) {
  AttributeList list;
  list.add("vitrine.probe", std::string(event.probe));
  list.add(telemetry::pid_key, std::int64_t{event.pid});
  list.add(telemetry::thread_id_key, std::int64_t{event.tid});
  list.add(telemetry::thread_name_key, event.comm);
  list.add(telemetry::cpu_key, std::int64_t{event.cpu});
  if (event.start) {
    list.add("vitrine.start", std::string(event.start->probe));
    list.add_arguments("start.", event.start->arguments);
  }
  list.add_arguments("arg.", event.arguments);
  if (!event.stack.empty()) {
    std::string stack;
    for (const symbol::StackFrame& frame : event.stack) {
      stack += frame.function.empty() ? hex(frame.address) : frame.function;
      stack += " (" + std::string(file_name(frame.module)) + ")\n";
    }
    list.add("code.stacktrace", std::move(stack));
  }
  if (!event.labels_error.empty())
    list.add("vitrine.labels_error", std::string(event.labels_error));
  list.add_labels(event.labels->labels);
  return list.take();
}

std::optional<telemetry::TraceContext> context_of(const TraceEvent& event) {
  const auto& trace = event.labels->trace;
  if (!trace || !trace->is_valid()) return std::nullopt;
  return telemetry::TraceContext{trace->trace_id, trace->span_id, trace->trace_flags.value_or(0)};
}

std::uint64_t unix_time(std::uint64_t time_ns, std::int64_t wall_clock_ns) {
  return time_ns + static_cast<std::uint64_t>(wall_clock_ns);
}

}  // namespace

telemetry::LogRecord log_record_of(const TraceEvent& event, std::int64_t wall_clock_ns) {
  telemetry::LogRecord record;
  record.time_ns = record.observed_ns = unix_time(event.time_ns, wall_clock_ns);
  record.event = "vitrine.probe";
  record.body = event.probe;
  record.attributes = attributes_of(event);
  record.trace = context_of(event);
  return record;
}

telemetry::Span span_of(const TraceEvent& event, std::int64_t wall_clock_ns,
                        telemetry::SpanIds& ids) {
  telemetry::Span span;
  const auto parent = context_of(event);
  span.name = event.start->probe;
  span.start_ns = unix_time(event.start->time_ns, wall_clock_ns);
  span.end_ns = unix_time(event.time_ns, wall_clock_ns);
  span.attributes = attributes_of(event);
  span.trace = ids.next(parent);
  if (parent) span.parent = parent->span_id;
  return span;
}

}  // namespace vitrine::observe
