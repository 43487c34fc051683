#include "agent/http_server.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <new>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace vitrine::agent {
namespace {

using HttpClock = std::chrono::steady_clock;

constexpr std::size_t max_connections = 16;
constexpr std::size_t max_head = 8192;            // bytes of a request
constexpr std::chrono::seconds max_head_time{1};  // until the head of a request is there
constexpr std::chrono::seconds max_time{5};       // of a response
constexpr int backlog = 128;
/// Until others may have freed some.
constexpr std::chrono::milliseconds pause_without_resources{100};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

std::optional<SocketAddress> socket_address(const ListenAddress& address) {
  SocketAddress made;
  auto* const four = reinterpret_cast<sockaddr_in*>(&made.storage);
  auto* const six = reinterpret_cast<sockaddr_in6*>(&made.storage);
  if (::inet_pton(AF_INET, address.host.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(address.port);
    made.size = sizeof *four;
    return made;
  }
  made.storage = {};
  if (::inet_pton(AF_INET6, address.host.c_str(), &six->sin6_addr) != 1) return std::nullopt;
  six->sin6_family = AF_INET6;
  six->sin6_port = htons(address.port);
  made.size = sizeof *six;
  return made;
}

const char* reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    default:
      return "Service Unavailable";
  }
}

/// "GET /metrics HTTP/1.1": the response to the head of a request.
std::string response_to(std::string_view head, const HttpServer::Pages& pages) {
  const std::string_view line = head.substr(0, head.find_first_of("\r\n"));
  const std::size_t space = line.find(' ');
  const std::string_view method = line.substr(0, space);
  std::string_view path = space == line.npos ? std::string_view() : line.substr(space + 1);
  const std::size_t version = path.rfind(" HTTP/1.");
  HttpResponse response{400, "text/plain; charset=utf-8", "bad request\n"};
  if (version != path.npos && path.starts_with('/')) {
    path = path.substr(0, std::min(version, path.find('?')));
    response = method == "GET" || method == "HEAD"
                   ? pages(path)
                   : HttpResponse{405, "text/plain; charset=utf-8", "only GET\n"};
  }
  return fmt::format(
      "HTTP/1.0 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
      "Connection: close\r\n\r\n{}",
      response.status, reason(response.status), response.type, response.body.size(),
      method == "HEAD" ? std::string_view() : std::string_view(response.body));
}

struct Connection {
  FileDescriptor socket;
  HttpClock::time_point end;
  std::string in, out;
  std::size_t sent = 0;
};

/// False: it is over.
bool go_on(Connection& connection, const HttpServer::Pages& pages) {
  if (connection.out.empty()) {
    char bytes[2048];
    const ssize_t got = ::recv(connection.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    connection.in.append(bytes, static_cast<std::size_t>(got));
    const bool whole = connection.in.find("\r\n\r\n") != std::string::npos ||
                       connection.in.find("\n\n") != std::string::npos;
    if (!whole && connection.in.size() < max_head) return true;
    connection.out = response_to(whole ? std::string_view(connection.in) : "", pages);
    connection.end = HttpClock::now() + max_time;
  }
  const std::string_view rest = std::string_view(connection.out).substr(connection.sent);
  const ssize_t put =
      ::send(connection.socket.get(), rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (put < 0) return errno == EAGAIN || errno == EINTR;
  connection.sent += static_cast<std::size_t>(put);
  if (connection.sent < connection.out.size()) return true;
  ::shutdown(connection.socket.get(), SHUT_WR);  // what is unread would reset the connection
  return false;
}

using Connections = std::vector<Connection>;  // the oldest first

/// Any local user can connect and send nothing: such a connection is in no other's way.
void make_room(Connections& connections) {
  if (connections.size() < max_connections) return;
  const auto silent = std::find_if(connections.begin(), connections.end(),
                                   [](const Connection& one) { return one.out.empty(); });
  connections.erase(silent == connections.end() ? connections.begin() : silent);
}

/// Until something has happened, and what follows from that. False: it is over.
bool serve_once(int listening, int wake, const HttpServer::Pages& pages, Connections& connections) {
  std::vector<pollfd> waits{{wake, POLLIN, 0}};
  waits.push_back({listening, POLLIN, 0});
  auto next = HttpClock::now() + std::chrono::hours(1);
  for (const Connection& one : connections) {
    const short event = one.out.empty() ? POLLIN : POLLOUT;
    waits.push_back({one.socket.get(), event, 0});
    next = std::min(next, one.end);
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - HttpClock::now());
  const int time = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  if (::poll(waits.data(), waits.size(), time) < 0 && errno != EINTR) return false;
  if (waits[0].revents != 0) return false;
  const auto now = HttpClock::now();
  Connections open;
  for (std::size_t i = 0; i < connections.size(); ++i) {
    const bool goes_on = waits[i + 2].revents == 0 || go_on(connections[i], pages);
    if (goes_on && now < connections[i].end) open.push_back(std::move(connections[i]));
  }
  connections = std::move(open);
  if (waits[1].revents == 0) return true;
  FileDescriptor socket(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) {
    make_room(connections);
    // From now: to make pages for the others may have taken long.
    connections.push_back({std::move(socket), HttpClock::now() + max_head_time, {}, {}, 0});
  } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
    std::this_thread::sleep_for(pause_without_resources);  // descriptors or memory
  }
  return true;
}

void serve(int listening, int wake, const HttpServer::Pages& pages) {
  Connections connections;
  for (bool goes_on = true; goes_on;) {
    try {
      goes_on = serve_once(listening, wake, pages, connections);
    } catch (const std::bad_alloc&) {
      connections.clear();  // their clients ask again
      std::this_thread::sleep_for(pause_without_resources);
    }
  }
}

}  // namespace

std::string ListenAddress::text() const {
  const bool is_ipv6 = host.find(':') != host.npos;
  return fmt::format("{}{}{}:{}", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "", port);
}

Result<ListenAddress> parse_listen_address(std::string_view text) {
  const auto wrong = [&] {
    return fail(ErrorCode::usage, fmt::format("'{}' is not an address and a port", text),
                "write 127.0.0.1:9495, [::1]:9495, 0.0.0.0:9495, or off");
  };
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos) return wrong();
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  ListenAddress address{std::string(host), 0};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size() || port.empty() ||
      !socket_address(address))
    return wrong();
  return address;
}

Result<std::unique_ptr<HttpServer>> HttpServer::open(const ListenAddress& address, Pages pages,
                                                     std::function<void()> begin_thread) {
  const auto failed = [&] {
    return fail(ErrorCode::failed,
                fmt::format("cannot listen at {}: {}", address.text(), std::strerror(errno)),
                "choose another address with --listen, or --listen off");
  };
  const auto wanted = socket_address(address);
  if (!wanted) return fail(ErrorCode::usage, fmt::format("{} is not an address", address.host));
  FileDescriptor socket(
      ::socket(wanted->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&wanted->storage), wanted->size) !=
          0 ||
      ::listen(socket.get(), backlog) != 0)
    return failed();
  SocketAddress had;
  had.size = sizeof had.storage;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&had.storage), &had.size) != 0)
    return failed();
  const std::uint16_t port =
      had.storage.ss_family == AF_INET
          ? ntohs(reinterpret_cast<const sockaddr_in*>(&had.storage)->sin_port)
          : ntohs(reinterpret_cast<const sockaddr_in6*>(&had.storage)->sin6_port);
  FileDescriptor wake(::eventfd(0, EFD_CLOEXEC));
  if (!wake) return failed();
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(socket), std::move(wake), port));
  try {
    server->thread_ = std::thread([listening = server->socket_.get(), wakes = server->wake_.get(),
                                   pages = std::move(pages), begin = std::move(begin_thread)] {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, nullptr);
      if (begin) begin();
      serve(listening, wakes, pages);
    });
  } catch (const std::system_error&) {
    return fail(ErrorCode::failed, "no thread can be started for the pages",
                "allow more processes (RLIMIT_NPROC, pids.max), or --listen off");
  }
  pthread_setname_np(server->thread_.native_handle(), "http");
  return server;
}

HttpServer::~HttpServer() {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
  if (thread_.joinable()) thread_.join();
}

}  // namespace vitrine::agent
