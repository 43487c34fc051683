// HeldProgram: a child that vitrine started and holds before it has run any code of its own.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "base/memory.hpp"
#include "base/result.hpp"

namespace vitrine::target {

/// All calls come from one thread: the kernel wants that of a tracer. If we are killed meanwhile,
/// the program is, too: it has done nothing yet.
class HeldProgram {
 public:
  /// Seizes a child that has yet to execute its program. Errors: not_permitted, failed.
  static Result<HeldProgram> seize(pid_t child);

  HeldProgram(HeldProgram&& other) noexcept;
  HeldProgram& operator=(HeldProgram&&) = delete;
  ~HeldProgram() { release(); }

  /// Waits until it has executed its program, and holds it before the first instruction. Errors:
  /// not_found (it ended instead).
  Result<void> wait_for_exec();

  /// Lets it run until its dynamic linker has loaded the libraries that it starts with, and has run
  /// no code of theirs. Does nothing where there is no dynamic linker, or none that reports it.
  /// Errors: not_found (it ended), interrupted (`stop` became true: it was killed). Either way it
  /// is reaped.
  Result<void> run_to_libraries(const std::atomic<bool>* stop = nullptr);

  /// Lets it go on until it executes another program, if it does: then executed() holds it anew.
  /// Meanwhile our end is not its end, and signals to its first thread take until executed().
  void go_on() noexcept;

  /// After go_on(), without waiting: whether it has executed another program, and is held before
  /// that one's first instruction. Errors: not_found (it has ended, and is reaped).
  Result<bool> executed();

  [[nodiscard]] bool is_held() const { return held_; }

  /// Lets it go on, on its own. False: it comes to no stop in which it could be let go, within a tenth of a second; it
  /// goes on as after go_on().
  bool release() noexcept;

 private:
  explicit HeldProgram(pid_t pid) : pid_(pid) {}
  Result<int> wait_for_stop(const std::atomic<bool>* stop);
  Result<bool> run_to(Address breakpoint, const std::atomic<bool>* stop);

  pid_t pid_;
  bool held_ = false;  ///< stopped by us
};

}  // namespace vitrine::target
