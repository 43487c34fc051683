// Sampling of labels by the CPU clock.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "bpf/wire/wire.h"

namespace vitrine::bpf {

// Sampler: the labels of threads as CPU-clock interrupts find them.

/// Since the sampler was opened (enum vitrine_counter).
struct SamplerCounters {
  std::uint64_t samples = 0;  ///< of wanted processes
  std::uint64_t lost = 0;     ///< of those, dropped: user space did not keep up
  std::uint64_t cut = 0;      ///< pieces of labels that had no room in their sample
  std::uint64_t faults = 0;   ///< pieces of labels that were not resident
};

class Sampler {
 public:
  /// Loads the program; nothing is sampled yet. Errors: as ThreadIterator::open.
  static Result<std::unique_ptr<Sampler>> open();

  virtual ~Sampler() = default;

  /// Wants the threads of a process (its id as the initial pid namespace has it; a vitrine_thread
  /// has it). At most 64 processes. Replaces what was wanted of it before.
  virtual Result<void> want(pid_t kernel_tgid, const vitrine_target& target) = 0;
  virtual void forget(pid_t kernel_tgid) = 0;

  /// Samples every CPU `hz` times a second, or one thread (`tid` as we see it) whenever it has used
  /// `period` of CPU time. Errors: not_permitted, not_found (no such thread), failed.
  virtual Result<void> start(unsigned hz) = 0;
  virtual Result<void> start(pid_t tid, std::chrono::microseconds period) = 0;
  virtual void stop() = 0;

  /// Hands over what has come in, waiting for it at most `timeout`. `sink` gets one vitrine_sample
  /// with all that follows it (bpf/event.hpp reads it).
  virtual Result<void> poll(std::chrono::milliseconds timeout,
                            const std::function<void(std::span<const std::byte>)>& sink) = 0;

  virtual SamplerCounters counters() const = 0;
};

}  // namespace vitrine::bpf
