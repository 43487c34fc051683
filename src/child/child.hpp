// Child: a process that was forked to do some work for us.
//
// It is one program with us, forked and not executed: a library has no program of its own to start.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>

#include "base/file_descriptor.hpp"
#include "base/result.hpp"

namespace vitrine::child {

enum class Kind : std::uint8_t {
  forked,  ///< by fork(): it may use memory and locks as its parent does
  /// By clone(), without libc's knowledge: it may call what is async-signal-safe. Its end raises no
  /// SIGCHLD, and nobody but us gets it from a wait for any child.
  quiet,
};

class Child {
 public:
  /// Runs `life` in a child, which ends with it. No handler of a signal runs in it before
  /// leave_everything(). Errors: failed.
  static Result<Child> start(Kind kind, const std::function<void()>& life);

  Child() = default;
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { end(); }

  explicit operator bool() const { return pid_ > 0; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Readable once it has ended.
  [[nodiscard]] int handle() const { return handle_.get(); }

  /// Kills it and waits for its end.
  void end() noexcept;

  void kill() const noexcept;

  /// Its status, as waitpid(2) has it, when it has ended by then; 0 if somebody else had that. There
  /// is no child any more then. nullopt: it goes on.
  std::optional<int> wait(std::chrono::milliseconds time);

  /// Forgets it: in a process that was forked meanwhile, it is nobody's child.
  void forget() noexcept;

 private:
  Child(pid_t pid, FileDescriptor handle) : pid_(pid), handle_(std::move(handle)) {}
  int reap() noexcept;

  pid_t pid_ = -1;         ///< -1: there is none
  FileDescriptor handle_;  ///< pidfd
};

}  // namespace vitrine::child
