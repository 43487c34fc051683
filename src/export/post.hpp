// HTTP requests by libcurl, which is loaded when the first one is sent.
#pragma once

#include <curl/curl.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "export/exporter.hpp"
#include "export/response.hpp"

namespace vitrine::send {

// libcurl, loaded when something is to be sent: with its thirty libraries it takes longer to load
// than most of what the command does takes to run (5 ms against 1).

/// The functions of libcurl, by their names without "curl_".
struct CurlLibrary {
  decltype(&::curl_global_init) global_init;
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
  /// Keeps its connection between requests. Proxies are what the environment says. Errors: usage
  /// (a header), unsupported (no libcurl), failed.
  static Result<std::unique_ptr<Post>> open(const std::string& url, const ExportOptions& options);
  virtual ~Post() = default;

  /// Begins to send `body`, gzipped protobuf. Must not be busy.
  virtual void start(std::string body) = 0;
  [[nodiscard]] virtual bool busy() const = 0;

  /// Works on the request, if there is one, for at most `timeout`: returns its answer when it has
  /// come, nothing when it has not, or wake() was called.
  virtual std::optional<Answer> wait(std::chrono::milliseconds timeout) = 0;
  /// From any thread: a wait() that runs, or else the next one, returns.
  virtual void wake() = 0;
};

}  // namespace vitrine::send
