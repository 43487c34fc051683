// Launched: a program that we start in order to observe it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/own_process.hpp"
#include "base/result.hpp"
#include "target/held_program.hpp"

namespace vitrine::observe {

class Launched {
 public:
  /// Starts `command` (its program searched in PATH) with our standard streams, and returns once it
  /// runs its own code. `to_stderr`: what it writes to standard output goes to standard error, because the former is
  /// vitrine's alone. Errors: usage (no command), not_found or not_permitted (cannot be run).
  static Result<Launched> start(const std::vector<std::string>& command, bool to_stderr);

  /// The same, but it is held before its first instruction until release(). Errors: also failed
  /// (it cannot be held).
  static Result<Launched> hold(const std::vector<std::string>& command, bool to_stderr);

  /// Of a program that is held: as target::HeldProgram.
  Result<void> run_to_libraries(const std::atomic<bool>* stop);
  void release() noexcept { held_.reset(); }

  /// Lets it go on until it executes another program, if it does; a thread that is not its first
  /// does so unnoticed.
  void go_on() noexcept {
    if (held_) held_->go_on();
  }
  /// Whether go_on() was called last, and nothing is held since.
  [[nodiscard]] bool goes_on() const { return held_ && !held_->is_held(); }
  /// After go_on(), without waiting: whether it is held again, before that program's first
  /// instruction.
  bool executed();

  Launched(Launched&& other) noexcept;
  Launched& operator=(Launched&& other) noexcept;
  /// As end(); in a fork of the process that started it, nothing.
  ~Launched();

  /// Asks a program that still runs to end (SIGTERM), and kills it when it has not after
  /// some seconds. What there is to report: of one that has ended by itself, how it failed; mostly nothing.
  std::string end() noexcept;

  pid_t pid() const { return pid_; }

  /// Whether it has ended by itself.
  bool ended();

 private:
  explicit Launched(pid_t pid) : pid_(pid) {}
  static Result<Launched> launch(const std::vector<std::string>& command, bool to_stderr,
                                 bool hold);
  bool ends_within(std::chrono::milliseconds time) noexcept;

  OwnProcess owner_;
  pid_t pid_ = -1;
  bool reaped_ = false;
  std::optional<int> status_;  ///< of wait(2); nothing: not known
  std::optional<target::HeldProgram> held_;
};

}  // namespace vitrine::observe
