#include "export/endpoint.hpp"

#include <algorithm>
#include <iterator>
#include <memory>

#include "export/http.hpp"

namespace vitrine::exporter {
namespace {

struct EngineScheme {
  std::string_view prefix;
  Engine engine;
  const char* port;  ///< of HTTP without TLS
};

constexpr EngineScheme engine_schemes[] = {{"otlp+", Engine::otlp, "4318"},
                                           {"pyroscope+", Engine::pyroscope, "4040"}};

const EngineScheme* scheme_of(std::string_view url) {
  const auto* const found = std::ranges::find_if(
      engine_schemes, [&](const EngineScheme& scheme) { return url.starts_with(scheme.prefix); });
  return found == std::end(engine_schemes) ? nullptr : found;
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

  bool set(CURLUPart part, const std::string& value) {
    return curl_.url_set(url_, part, value.empty() ? nullptr : value.c_str(), 0) == CURLUE_OK;
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
              "give otlp+http://HOST:4318, otlp+https://HOST or pyroscope+http://HOST:4040");
}

}  // namespace

Engine engine_of(std::string_view url) {
  const EngineScheme* scheme = scheme_of(url);
  return scheme == nullptr ? Engine::otlp : scheme->engine;
}

Result<Endpoint> parse_endpoint(std::string_view text, bool whole) {
  TRY(curl_library());
  const EngineScheme* engine = scheme_of(text);
  constexpr const char* wrong_scheme =
      "its scheme is not otlp+http, otlp+https, pyroscope+http or pyroscope+https";
  if (engine == nullptr) return not_an_endpoint(wrong_scheme);
  const auto parts = Parts::of(std::string(text.substr(engine->prefix.size())));
  if (!parts || parts->get(CURLUPART_HOST).empty()) return not_an_endpoint("not a URL");
  const std::string scheme = parts->get(CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") return not_an_endpoint(wrong_scheme);
  if (!parts->get(CURLUPART_FRAGMENT).empty()) return not_an_endpoint("it has a fragment (#)");
  if (!whole && scheme == "http" && parts->get(CURLUPART_PORT).empty())
    parts->set(CURLUPART_PORT, engine->port);
  if (!whole && parts->get(CURLUPART_PATH) == "/")
    parts->set(CURLUPART_PATH, "/v1development/profiles");
  return Endpoint{parts->get(CURLUPART_URL), parts->get(CURLUPART_HOST) + ':' +
                                                 parts->get(CURLUPART_PORT, CURLU_DEFAULT_PORT)};
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
