// Spans and log records: values, and their messages (trace.proto and logs.proto of
// opentelemetry-proto 1.11.0).
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include "telemetry/attributes.hpp"

namespace vitrine::telemetry {

struct LogRecord {
  std::uint64_t time_ns = 0;      ///< Unix time when it happened
  std::uint64_t observed_ns = 0;  ///< and when it was seen
  std::string event;              ///< what kind of event it is
  std::string body;
  Attributes attributes;
  std::optional<TraceContext> trace;
};

/// A message LogRecord.
std::string encode(const LogRecord& record);

struct Span {
  std::string name;
  std::uint64_t start_ns = 0;  ///< Unix time
  std::uint64_t end_ns = 0;
  Attributes attributes;
  TraceContext trace;  ///< its own ids
  std::optional<std::array<std::uint8_t, 8>> parent;
};

/// A message Span of the kind INTERNAL.
std::string encode(const Span& span);

/// Makes ids by chance, as OpenTelemetry asks for: never zero.
class SpanIds {
 public:
  SpanIds() : chance_(std::random_device()()) {}
  explicit SpanIds(std::uint64_t seed) : chance_(seed) {}

  /// Of a span in `parent`; without one, of the root of a new trace.
  TraceContext next(const std::optional<TraceContext>& parent);

 private:
  std::mt19937_64 chance_;
};

}  // namespace vitrine::telemetry
