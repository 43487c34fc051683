#include "agent/service_manager.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/clock.hpp"

namespace vitrine::agent {
namespace {

template <class Number>
std::optional<Number> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  Number number{};
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

/// A path, or with @ a name that is in no file system. Not connected: nothing listens there.
FileDescriptor connected_to(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(path);
  if (length < 2 || length >= sizeof address.sun_path || (*path != '/' && *path != '@')) return {};
  std::memcpy(address.sun_path, path, length);
  if (*path == '@') address.sun_path[0] = '\0';
  FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  const timeval most{5, 0};  // for one that has much else to read
  if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most) != 0 ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    return {};
  return socket;
}

}  // namespace

ServiceManager::ServiceManager() {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  if (path != nullptr) socket_ = connected_to(path);
  const auto time = number_in<std::uint64_t>("WATCHDOG_USEC");
  const auto pid = number_in<pid_t>("WATCHDOG_PID");
  if (socket_ && time && *time != 0 && (!pid || *pid == ::getpid()))
    watchdog_ = std::chrono::microseconds(*time);
}

void ServiceManager::send(const std::string& message, int flags) const {
  if (socket_) (void)::send(socket_.get(), message.data(), message.size(), MSG_NOSIGNAL | flags);
}

void ServiceManager::ready(std::string_view status) const {
  send(fmt::format("READY=1\nSTATUS={}", status), 0);
}

void ServiceManager::reloading() const {
  send(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", now_ns(CLOCK_MONOTONIC) / 1000), 0);
}

void ServiceManager::stopping() const {
  send("STOPPING=1\nSTATUS=sending what is left", 0);
}

void ServiceManager::alive() {
  if (!watchdog_ || Clock::now() - fed_ < *watchdog_ / 3) return;
  fed_ = Clock::now();
  send("WATCHDOG=1", MSG_DONTWAIT);  // without room: the next one does as well
}

}  // namespace vitrine::agent
