// Where profiles and other signals are sent to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "export/signal.hpp"

namespace vitrine::exporter {

/// Which engine a URL's scheme names: they differ in what they make of attributes.
enum class Engine : std::uint8_t {
  otlp,        ///< an OpenTelemetry Collector, or any other receiver
  pyroscope,   ///< makes a series of every set of attributes
  parca,       ///< so does this one, and it ignores links
  clickhouse,  ///< takes rows, one a sample
};

/// By the scheme alone; `otlp` for any other text.
Engine engine_of(std::string_view url);

/// Whether a URL has no TLS, by the scheme alone; false for any other text.
bool lacks_tls(std::string_view url);

enum class Protocol : std::uint8_t {
  http,        ///< OTLP over HTTP
  grpc,        ///< OTLP over gRPC
  clickhouse,  ///< lines of JSON over ClickHouse's HTTP interface
};

struct Endpoint {
  std::string url;   ///< http or https, whole
  std::string name;  ///< host:port, for messages: a URL may hold a password
  Protocol protocol = Protocol::http;
};

/// `otlp+http://host[:4318][/path]` or `otlp+https://host[:443][/path]`, in ExportOptions' words;
/// `pyroscope+http://host[:4040]`, `pyroscope+https://host[:443]`; over gRPC `otlp+grpc://host[:4317]`,
/// `otlp+grpcs://host[:443]`, `parca+grpc://host[:7070]` and `parca+grpcs://host[:443]`;
/// `clickhouse+http://host[:8123][/table]` and `clickhouse+https://host[:443][/table]`.
/// `whole`: no port and no path of OTLP's is put into it. Engines but OTLP's take profiles alone.
/// Errors: usage; unsupported (no libcurl).
Result<Endpoint> parse_endpoint(std::string_view text, bool whole = false,
                                Signal signal = Signal::profiles);

/// Whether both URLs are of one scheme, host and port: a header with a secret may go to both.
bool same_origin(const std::string& left, const std::string& right);

/// A URL of any kind without user and password, for messages; empty: it is no URL.
std::string without_password(const std::string& url);

}  // namespace vitrine::exporter
