// Launched: a program that we start in order to observe it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace vitrine::observe {

class Launched {
 public:
  /// Starts `command` (its program searched in PATH) with our standard streams, and returns once it
  /// runs its own code. Errors: usage (no command), not_found or not_permitted (cannot be run).
  static Result<Launched> start(const std::vector<std::string>& command);

  Launched(Launched&& other) noexcept;
  Launched& operator=(Launched&& other) noexcept;
  /// Asks a program that still runs to end (SIGTERM) and waits for it.
  ~Launched();

  pid_t pid() const { return pid_; }

  /// Whether it has ended by itself.
  bool ended();

 private:
  explicit Launched(pid_t pid) : pid_(pid) {}
  void finish() noexcept;

  pid_t pid_ = -1;
  bool reaped_ = false;
};

}  // namespace vitrine::observe
