#include "export/environment.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include "base/text.hpp"

namespace vitrine::exporter {
namespace {

bool same_name(std::string_view left, std::string_view right) {
  return std::equal(
      left.begin(), left.end(), right.begin(), right.end(),
      [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
}

std::string_view name_of(std::string_view header) {
  return trimmed(header.substr(0, header.find(':')));
}

struct Variable {
  std::string name;
  std::string value;
};

/// The more special of the two; one without a value is as good as not set (OpenTelemetry's rule).
std::optional<Variable> variable(const Environment& environment, Signal signal,
                                 const std::string& last) {
  for (const char* first : {names_of(signal).variable, "OTEL_EXPORTER_OTLP_"}) {
    const std::string name = first + last;
    if (auto value = environment(name); value && !value->empty()) return Variable{name, *value};
  }
  return std::nullopt;
}

/// "name=value,name=value", values percent-encoded, as W3C baggage.
Result<void> add_headers(const Variable& from, std::vector<std::string>& headers) {
  const std::size_t given = headers.size();
  const auto pairs = parse_baggage(from.value);
  if (!pairs)  // whose text may be a secret
    return fail(ErrorCode::usage, from.name + " is not a list of headers",
                "write name=value,name=value with %XX for special characters in values");
  for (const auto& pair : *pairs) {
    const auto is_same = [&](const std::string& header) {
      return same_name(name_of(header), pair.first);
    };
    if (std::none_of(headers.begin(), headers.begin() + static_cast<std::ptrdiff_t>(given),
                     is_same))
      headers.emplace_back(pair.first).append(": ").append(pair.second);
  }
  return {};
}

/// Of gRPC: one host for all signals, and TLS unless its scheme is http.
std::string grpc_endpoint(const Environment& environment, Signal signal) {
  const auto given = variable(environment, signal, "ENDPOINT");
  const std::string url = given ? given->value : "http://localhost:4317";
  const std::size_t end = url.find("://");
  const bool is_plain = end != url.npos && url.substr(0, end) == "http";
  std::string host = end == url.npos ? url : url.substr(end + 3);
  while (host.ends_with('/')) host.pop_back();
  return (is_plain ? "otlp+grpc://" : "otlp+grpcs://") + host;
}

/// The endpoint of all signals is the root of paths; the one of a signal is the URL itself. Both
/// are used unchanged.
std::string endpoint(const Environment& environment, Signal signal) {
  const auto protocol = variable(environment, signal, "PROTOCOL");
  if (protocol && protocol->value == "grpc") return grpc_endpoint(environment, signal);
  const auto own = environment(names_of(signal).variable + std::string("ENDPOINT"));
  if (own && !own->empty()) return "otlp+" + *own;
  const auto all = environment("OTEL_EXPORTER_OTLP_ENDPOINT");
  std::string root = all && !all->empty() ? *all : "http://localhost:4318";
  while (root.ends_with('/')) root.pop_back();
  return "otlp+" + root + names_of(signal).path;
}

}  // namespace

Environment own_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): at the start
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Result<ExportOptions> with_environment(ExportOptions options, const Environment& environment) {
  if (options.url == "otlp") {
    options.url = endpoint(environment, options.signal);
    options.url_is_whole = true;
  }
  if (const auto headers = variable(environment, options.signal, "HEADERS"))
    TRY(add_headers(*headers, options.headers));
  const auto file = [&](const char* name, std::string& into) {
    if (const auto found = variable(environment, options.signal, name); found && into.empty())
      into = found->value;
  };
  file("CERTIFICATE", options.authorities);
  file("CLIENT_CERTIFICATE", options.certificate);
  file("CLIENT_KEY", options.key);
  return options;
}

}  // namespace vitrine::exporter
