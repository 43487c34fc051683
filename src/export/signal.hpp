// Signals: the kinds of data that OTLP carries. Each has a path, a gRPC service and words of its
// own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vitrine::exporter {

enum class Signal : std::uint8_t { profiles, metrics, traces, logs };

struct SignalNames {
  std::string_view name;       ///< in messages
  std::string_view items;      ///< what a request has many of
  const char* path;            ///< over HTTP
  const char* method;          ///< the path of the gRPC method
  const char* variable;        ///< OTEL_EXPORTER_OTLP_…: its environment variables begin so
  std::string_view spool_end;  ///< of the names of its files in a spool
};

inline constexpr std::array<SignalNames, 4> signal_names{{
    {"profiles", "profiles", "/v1development/profiles",
     "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
     "OTEL_EXPORTER_OTLP_PROFILES_", ".otlp.gz"},
    {"metrics", "data points", "/v1/metrics",
     "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
     "OTEL_EXPORTER_OTLP_METRICS_", ".metrics.gz"},
    {"spans", "spans", "/v1/traces", "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
     "OTEL_EXPORTER_OTLP_TRACES_", ".spans.gz"},
    {"logs", "log records", "/v1/logs", "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
     "OTEL_EXPORTER_OTLP_LOGS_", ".logs.gz"},
}};

constexpr const SignalNames& names_of(Signal signal) {
  return signal_names[static_cast<std::size_t>(signal)];
}

}  // namespace vitrine::exporter
