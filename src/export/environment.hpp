// The environment variables by which OpenTelemetry's exporters are configured.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "export/exporter.hpp"

namespace vitrine::exporter {

/// A variable's value; nullopt: it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// That of this process.
Environment own_environment();

/// `options`, and what they leave open as OTEL_EXPORTER_OTLP_PROFILES_* (of its signal), or else
/// OTEL_EXPORTER_OTLP_*, have it: HEADERS (a place for secrets that is not the command line),
/// CERTIFICATE, CLIENT_CERTIFICATE, CLIENT_KEY; and, for the url "otlp", PROTOCOL (grpc, or else
/// HTTP) and ENDPOINT, or else http://localhost:4318 (gRPC: 4317). Errors: usage (names the
/// variable).
Result<ExportOptions> with_environment(ExportOptions options, const Environment& environment);

}  // namespace vitrine::exporter
