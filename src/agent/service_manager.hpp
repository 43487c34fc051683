// ServiceManager: reports readiness and health to the service manager (sd_notify(3)):
// datagrams to the socket that $NOTIFY_SOCKET names. libsystemd would be a library more for these
// lines.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_descriptor.hpp"

namespace vitrine::agent {

class ServiceManager {
 public:
  /// By NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. Without them it does nothing.
  ServiceManager();

  void ready(std::string_view status) const;  ///< also after reloading()
  void reloading() const;
  void stopping() const;
  /// Called in each turn of the loop that must not stop: now and then keeps the watchdog quiet.
  void alive();

 private:
  using Clock = std::chrono::steady_clock;
  void send(const std::string& message, int flags) const;

  FileDescriptor socket_;
  std::optional<std::chrono::microseconds> watchdog_;
  Clock::time_point fed_{};
};

}  // namespace vitrine::agent
