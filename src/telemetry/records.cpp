#include "telemetry/records.hpp"

#include <algorithm>
#include <span>

namespace vitrine::telemetry {
namespace {

namespace log_record {
constexpr Tag time = 1, severity = 2, severity_text = 3, body = 5, attributes = 6, flags = 8,
              trace_id = 9, span_id = 10, observed_time = 11, event_name = 12;
}
namespace span {
constexpr Tag trace_id = 1, span_id = 2, parent_span_id = 4, name = 5, kind = 6, start = 7, end = 8,
              attributes = 9, flags = 16;
}
constexpr std::int32_t severity_info = 9;
constexpr std::int32_t kind_internal = 1;

}  // namespace

std::string encode(const LogRecord& record) {
  std::string encoded;
  Writer message(encoded);
  message.add_fixed64(log_record::time, record.time_ns);
  message.add_fixed64(log_record::observed_time, record.observed_ns);
  message.add_enum(log_record::severity, severity_info);
  message.add_string(log_record::severity_text, "INFO");
  message.add_message(log_record::body, encode_value(record.body));
  message.add_string(log_record::event_name, record.event);
  add_attributes(message, log_record::attributes, record.attributes);
  if (record.trace) {
    message.add_fixed32(log_record::flags, record.trace->flags);
    add_id(message, log_record::trace_id, record.trace->trace_id);
    add_id(message, log_record::span_id, record.trace->span_id);
  }
  return encoded;
}

std::string encode(const Span& from) {
  std::string encoded;
  Writer message(encoded);
  add_id(message, span::trace_id, from.trace.trace_id);
  add_id(message, span::span_id, from.trace.span_id);
  if (from.parent) add_id(message, span::parent_span_id, *from.parent);
  message.add_fixed32(span::flags, from.trace.flags);
  message.add_string(span::name, from.name);
  message.add_enum(span::kind, kind_internal);
  message.add_fixed64(span::start, from.start_ns);
  message.add_fixed64(span::end, from.end_ns);
  add_attributes(message, span::attributes, from.attributes);
  return encoded;
}

TraceContext SpanIds::next(const std::optional<TraceContext>& parent) {
  const auto fill = [this](std::span<std::uint8_t> id) {
    do {
      std::ranges::generate(id, [this] { return static_cast<std::uint8_t>(chance_()); });
    } while (std::ranges::all_of(id, [](std::uint8_t byte) { return byte == 0; }));
  };
  TraceContext ids;
  if (parent) {
    ids.trace_id = parent->trace_id;
    ids.flags = parent->flags;
  } else {
    constexpr std::uint8_t sampled = 1;
    ids.flags = sampled;
    fill(ids.trace_id);
  }
  fill(ids.span_id);
  return ids;
}

}  // namespace vitrine::telemetry
