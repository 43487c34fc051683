// Perf events of CPUs that go offline and come back.
//
// The kernel takes the events of a CPU that goes offline out of force, and they stay so when it is online again: after
// a suspend all but one CPU has none. No error reports that, and the list of CPUs that are online may be the same as
// before. But the time in which an event has been in force (PERF_FORMAT_TOTAL_TIME_ENABLED) does not go on.
#pragma once

#include <linux/perf_event.h>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/result.hpp"

namespace vitrine::target {

/// Errors: usage (the frequency is 0, or above limits::sampling_frequency).
Result<void> require_sampling_frequency(unsigned frequency);

/// How often to look: the kernel interrupts each CPU for it, also one that idles.
constexpr std::chrono::milliseconds cpu_look_interval{2000};

/// Those that are online; where the kernel's list cannot be read, all there may be.
std::vector<int> online_cpus();

/// An event of one CPU that was opened with `read_format`.
class CpuEvent {
 public:
  static constexpr std::uint64_t read_format = PERF_FORMAT_TOTAL_TIME_ENABLED;

  explicit CpuEvent(FileDescriptor file) : file_(std::move(file)) {}

  [[nodiscard]] const FileDescriptor& file() const { return file_; }
  /// Whether its time goes on. Takes some milliseconds where it does not.
  [[nodiscard]] bool is_in_force() const;

 private:
  [[nodiscard]] std::uint64_t enabled_ns() const;

  FileDescriptor file_;
};

}  // namespace vitrine::target
