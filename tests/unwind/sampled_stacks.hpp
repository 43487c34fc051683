// Stacks of live processes, as a profiler samples them; and libdwfl's opinion of them.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <vector>

#include "unwind/frame.hpp"
#include "unwind/rule.hpp"

namespace vitrine::test {

struct SampledStack {
  unwind::Registers registers;
  std::vector<std::byte> bytes;  ///< from the stack pointer up

  [[nodiscard]] unwind::Stack stack() const { return {registers.sp(), bytes}; }
};

/// Stops a thread where it happens to be, takes its registers and up to `most` bytes of its stack,
/// lets it go on. x86-64 alone. nullopt: it cannot be.
std::optional<SampledStack> sample_thread(pid_t tid, std::size_t most);

/// Unwinds the same samples with libdwfl, whose modules are those of the process at construction.
class DwflUnwinder {
 public:
  explicit DwflUnwinder(pid_t pid);
  ~DwflUnwinder();

  /// Fills `frames`, but not their regions. False: it ended in an error.
  bool unwind(const SampledStack& sample, std::vector<unwind::Frame>& frames);

  /// Whether it can go on from a frame by CFI: a linker's PLT may have none, and then libdwfl guesses.
  bool has_rules(const unwind::Frame& frame);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Threads of a process.
std::vector<pid_t> threads_of(pid_t pid);

}  // namespace vitrine::test
