// Channel: messages over a socket between us and a worker, each with at most one descriptor.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/result.hpp"

namespace vitrine::sandbox {

/// The kind of a message.
enum class MessageKind : std::uint32_t {
  request = 1,  ///< to the worker: its Service knows what it means
  response,     ///< from it
  open,         ///< from it: number of a root (4 bytes), and a path
  opened,       ///< to it: with a descriptor, or with none
  fork,         ///< to the file opener: the settings of a worker, with its socket
};

struct Message {
  MessageKind kind = MessageKind::request;
  std::vector<std::byte> bytes;
  FileDescriptor descriptor;
};

class Channel {
 public:
  using Clock = std::chrono::steady_clock;
  /// Asked when the time is over: until when it lasts after all.
  using Extend = std::function<Clock::time_point()>;

  explicit Channel(FileDescriptor socket) : socket_(std::move(socket)) {}

  /// Errors: interrupted (the other side is gone), limit (it did not take it by then).
  Result<void> send(MessageKind kind, std::span<const std::byte> bytes, Clock::time_point until,
                    int descriptor = -1);

  /// Takes the next message. Errors: interrupted (the other side is gone), limit (nothing came by
  /// then), malformed (longer than `most` bytes).
  Result<Message> receive(std::size_t most, Clock::time_point until, const Extend& extend = {});

  [[nodiscard]] int descriptor() const { return socket_.get(); }

 private:
  Result<void> wait(short event, Clock::time_point until, const Extend& extend = {});

  FileDescriptor socket_;
};

}  // namespace vitrine::sandbox
