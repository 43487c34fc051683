// Worker: a process of ours that parses one file and names its addresses.
//
// It is forked, not executed: a library has no program of its own to start. What another thread of
// an embedding program may have left behind in the child (a lock that is held) can at worst make it
// hang, which ends as every hang does: by the time limit.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "symbol/channel.hpp"
#include "symbol/wire.hpp"

namespace vitrine::symbol {

/// What a worker parses.
struct Subject {
  int file = -1;
  int debug = -1;          ///< its debug file; -1: none
  bool with_dwarf = true;  ///< false: symbol tables alone
};

class Worker {
 public:
  /// Opens what a worker asks for, by the path that the file gives; none: it does not get that.
  using Open = std::function<FileDescriptor(const std::string& path)>;

  /// The descriptors of `subject` may be closed afterwards. Errors: failed.
  static Result<Worker> start(const Subject& subject, const Limits& limits);

  Worker(Worker&& other) noexcept;
  Worker& operator=(Worker&& other) noexcept;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();  ///< ends it

  /// Errors: failed (it crashed: the message says how), limit (it took too long, or needed too much
  /// memory), malformed. After an error it is of no use any more.
  Result<Reply> ask(std::span<const Address> addresses, const Open& open);

 private:
  Worker(Channel channel, pid_t pid, FileDescriptor handle, const Limits& limits)
      : channel_(std::move(channel)), pid_(pid), handle_(std::move(handle)), limits_(limits) {}

  void end() noexcept;
  tl::unexpected<Error> reason_of_end(Error seen);

  Channel channel_;
  pid_t pid_ = -1;         ///< -1: there is none
  FileDescriptor handle_;  ///< pidfd
  Limits limits_;
};

}  // namespace vitrine::symbol
