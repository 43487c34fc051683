// Post: one HTTP request at a time, tried once, beside other work of its thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "send/answer.hpp"
#include "send/exporter.hpp"

namespace vitrine::send {

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
