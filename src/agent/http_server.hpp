// HttpServer: responds to GET of a few pages, in a thread of its own. HTTP/1.0 without anything
// that its readers (Prometheus, a probe of Kubernetes, curl) do not need: each connection has one
// request, whose head is bounded, and a deadline; of more than a few connections the oldest without a
// head are closed, and where all have one, the oldest.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/file_descriptor.hpp"
#include "base/result.hpp"

namespace vitrine::agent {

struct HttpResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

/// An address and a port: "127.0.0.1:9495", "[::1]:9495". Names are not looked up.
struct ListenAddress {
  std::string host;
  std::uint16_t port = 0;  ///< 0: any
  [[nodiscard]] std::string text() const;
  bool operator==(const ListenAddress&) const = default;
};

/// Errors: usage.
Result<ListenAddress> parse_listen_address(std::string_view text);

class HttpServer {
 public:
  /// What a path has; status 404: nothing. In the thread of the server.
  using Pages = std::function<HttpResponse(std::string_view path)>;

  /// Listens. `begin_thread`: called first in the thread. Errors: usage (no such address here),
  /// failed (the port is taken).
  static Result<std::unique_ptr<HttpServer>> open(const ListenAddress& address, Pages pages,
                                                  std::function<void()> begin_thread);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// The one that it has.
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  HttpServer(FileDescriptor socket, FileDescriptor wake, std::uint16_t port)
      : socket_(std::move(socket)), wake_(std::move(wake)), port_(port) {}

  FileDescriptor socket_, wake_;
  std::uint16_t port_;
  std::thread thread_;
};

}  // namespace vitrine::agent
