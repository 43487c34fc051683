// HTTP requests by libcurl, and when to try again.
#pragma once

#include <curl/curl.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "base/result.hpp"
#include "export/endpoint.hpp"
#include "export/exporter.hpp"
#include "export/judgement.hpp"

namespace vitrine::exporter {

// How long to wait before the next try.

/// A collector that responds with a longer Retry-After is asked again after this: a slip there must not
/// silence a fleet for days.
inline constexpr std::chrono::minutes longest_retry_after{10};

/// Doubles from `first` up to `last`; half of each wait is chance, so that the senders of a fleet do
/// not come back all at once.
class Backoff {
 public:
  Backoff(std::chrono::milliseconds first, std::chrono::milliseconds last, std::uint64_t seed)
      : first_(first), last_(last), chance_(seed) {}

  /// After a failed try. What the collector asked for is waited for at least.
  std::chrono::milliseconds next(std::optional<std::chrono::seconds> asked);
  /// After one that did not fail.
  void reset() { wait_ = std::chrono::milliseconds(0); }

 private:
  std::chrono::milliseconds some_of(std::chrono::milliseconds most);

  std::chrono::milliseconds first_, last_;
  std::chrono::milliseconds wait_{0};
  std::mt19937_64 chance_;
};

// HTTP requests by libcurl, which is loaded when the first one is sent.

// libcurl, loaded when there is something to send: with its thirty libraries it takes longer to load
// than most of what the command does takes to run (5 ms against 1).

/// The functions of libcurl, by their names without "curl_".
struct CurlLibrary {
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_version_info) version_info;
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_setopt) easy_setopt;
  decltype(&::curl_easy_getinfo) easy_getinfo;
  decltype(&::curl_easy_strerror) easy_strerror;
  decltype(&::curl_easy_cleanup) easy_cleanup;
  decltype(&::curl_multi_init) multi_init;
  decltype(&::curl_multi_add_handle) multi_add_handle;
  decltype(&::curl_multi_remove_handle) multi_remove_handle;
  decltype(&::curl_multi_perform) multi_perform;
  decltype(&::curl_multi_poll) multi_poll;
  decltype(&::curl_multi_info_read) multi_info_read;
  decltype(&::curl_multi_cleanup) multi_cleanup;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;
  decltype(&::curl_url) url;
  decltype(&::curl_url_set) url_set;
  decltype(&::curl_url_get) url_get;
  decltype(&::curl_url_cleanup) url_cleanup;
  decltype(&::curl_free) free;
};

/// Loaded and initialised once, for good. Errors: unsupported.
Result<const CurlLibrary*> curl_library();

// Post: one HTTP request at a time, tried once, beside other work of its thread.

class Post {
 public:
  /// Keeps its connection between requests. Proxies are those of the environment. Errors: usage
  /// (a header, files of TLS), unsupported (no libcurl, or one without HTTP/2 for gRPC), failed.
  static Result<std::unique_ptr<Post>> open(const Endpoint& endpoint, const ExportOptions& options);
  virtual ~Post() = default;

  /// Begins to send `body`, gzipped. Must not be busy.
  virtual void start(std::string body) = 0;
  [[nodiscard]] virtual bool busy() const = 0;

  /// Works on the request, if there is one, for at most `timeout`: returns its response when it has
  /// come, nothing when it has not, or wake() was called.
  virtual std::optional<Response> wait(std::chrono::milliseconds timeout) = 0;
  /// From any thread: a wait() that runs, or else the next one, returns.
  virtual void wake() = 0;
};

}  // namespace vitrine::exporter
