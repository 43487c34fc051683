#include "export/endpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "export/clickhouse.hpp"
#include "export/http.hpp"

namespace vitrine::exporter {
namespace {

struct Scheme {
  std::string_view name;
  Engine engine;
  Protocol protocol;
  const char* http;  ///< the scheme of HTTP below it
  const char* port;  ///< nothing: that of HTTP
};

constexpr Scheme schemes[] = {
    {"otlp+http", Engine::otlp, Protocol::http, "http", "4318"},
    {"otlp+https", Engine::otlp, Protocol::http, "https", nullptr},
    {"otlp+grpc", Engine::otlp, Protocol::grpc, "http", "4317"},
    {"otlp+grpcs", Engine::otlp, Protocol::grpc, "https", nullptr},
    {"pyroscope+http", Engine::pyroscope, Protocol::http, "http", "4040"},
    {"pyroscope+https", Engine::pyroscope, Protocol::http, "https", nullptr},
    {"parca+grpc", Engine::parca, Protocol::grpc, "http", "7070"},
    {"parca+grpcs", Engine::parca, Protocol::grpc, "https", nullptr},
    {"clickhouse+http", Engine::clickhouse, Protocol::clickhouse, "http", "8123"},
    {"clickhouse+https", Engine::clickhouse, Protocol::clickhouse, "https", nullptr},
};

constexpr std::string_view after_scheme = "://";

const Scheme* scheme_of(std::string_view url) {
  const std::string_view name = url.substr(0, url.find(after_scheme));
  const auto* const found =
      std::ranges::find_if(schemes, [&](const Scheme& scheme) { return scheme.name == name; });
  return found == std::end(schemes) || name.size() == url.size() ? nullptr : found;
}

/// A URL in its parts, by libcurl: what it connects to and what we check are the same.
class Parts {
 public:
  static std::unique_ptr<Parts> of(const std::string& url) {
    const auto curl = curl_library();
    if (!curl) return nullptr;
    std::unique_ptr<Parts> parts(new Parts(**curl));
    return parts->set(CURLUPART_URL, url) ? std::move(parts) : nullptr;
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() { curl_.url_cleanup(url_); }

  bool set(CURLUPart part, const std::string& value, unsigned flags = 0) {
    return curl_.url_set(url_, part, value.empty() ? nullptr : value.c_str(), flags) == CURLUE_OK;
  }
  /// Empty: the URL has no such part.
  std::string get(CURLUPart part, unsigned flags = 0) const {
    char* text = nullptr;
    if (curl_.url_get(url_, part, &text, flags) != CURLUE_OK) return {};
    std::string copy = text;
    curl_.free(text);
    return copy;
  }

 private:
  explicit Parts(const CurlLibrary& curl) : curl_(curl), url_(curl.url()) {}
  const CurlLibrary& curl_;
  CURLU* url_;
};

tl::unexpected<Error> not_an_endpoint(const std::string& why) {
  return fail(ErrorCode::usage, "invalid collector URL: " + why,
              "give otlp+http://HOST:4318, otlp+https://HOST, otlp+grpc://HOST:4317, "
              "pyroscope+http://HOST:4040, parca+grpc://HOST:7070 or clickhouse+http://HOST:8123");
}

}  // namespace

Engine engine_of(std::string_view url) {
  const Scheme* scheme = scheme_of(url);
  return scheme == nullptr ? Engine::otlp : scheme->engine;
}

bool lacks_tls(std::string_view url) {
  const Scheme* scheme = scheme_of(url);
  return scheme != nullptr && std::string_view(scheme->http) == "http";
}

Result<Endpoint> parse_endpoint(std::string_view text, bool whole, Signal signal) {
  TRY(curl_library());
  const Scheme* scheme = scheme_of(text);
  if (scheme == nullptr) return not_an_endpoint("unknown scheme");
  if (scheme->engine != Engine::otlp && signal != Signal::profiles)
    return fail(ErrorCode::usage,
                fmt::format("an engine of profiles does not accept {}", names_of(signal).name),
                "give otlp+http://HOST:4318 or otlp+grpc://HOST:4317");
  const auto parts = Parts::of(scheme->http + std::string(text.substr(scheme->name.size())));
  if (!parts || parts->get(CURLUPART_HOST).empty()) return not_an_endpoint("not a URL");
  if (parts->get(CURLUPART_HOST) == "unix")
    return not_an_endpoint("sockets of files are not supported");
  if (!parts->get(CURLUPART_FRAGMENT).empty()) return not_an_endpoint("it has a fragment (#)");
  const bool is_grpc = scheme->protocol == Protocol::grpc;
  const std::string path = parts->get(CURLUPART_PATH);
  if (is_grpc && (path != "/" || !parts->get(CURLUPART_QUERY).empty()))
    return not_an_endpoint("a URL of gRPC has no path");
  if ((!whole || is_grpc) && scheme->port != nullptr && parts->get(CURLUPART_PORT).empty())
    parts->set(CURLUPART_PORT, scheme->port);
  if (is_grpc) {
    parts->set(CURLUPART_PATH, names_of(signal).method);
  } else if (scheme->protocol == Protocol::clickhouse) {
    const std::string statement = TRY(clickhouse::insert_statement(path));
    parts->set(CURLUPART_PATH, "/");
    parts->set(CURLUPART_QUERY, std::string(clickhouse::settings), CURLU_APPENDQUERY);
    parts->set(CURLUPART_QUERY, "query=" + statement, CURLU_APPENDQUERY | CURLU_URLENCODE);
  } else if (!whole && path == "/") {
    parts->set(CURLUPART_PATH, names_of(signal).path);
  }
  return Endpoint{parts->get(CURLUPART_URL),
                  parts->get(CURLUPART_HOST) + ':' + parts->get(CURLUPART_PORT, CURLU_DEFAULT_PORT),
                  scheme->protocol};
}

bool same_origin(const std::string& left, const std::string& right) {
  const auto one = Parts::of(left);
  const auto other = Parts::of(right);
  if (!one || !other) return false;
  for (const CURLUPart part : {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT})
    if (one->get(part, CURLU_DEFAULT_PORT) != other->get(part, CURLU_DEFAULT_PORT)) return false;
  return true;
}

std::string without_password(const std::string& url) {
  const auto parts = Parts::of(url);
  if (!parts) return {};
  parts->set(CURLUPART_USER, {});
  parts->set(CURLUPART_PASSWORD, {});
  return parts->get(CURLUPART_URL);
}

}  // namespace vitrine::exporter
