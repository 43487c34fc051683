// WaitingThreads: threads that wait when a profile begins, made pending samples of the profiler.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "bpf/moment_wire.h"
#include "bpf/profile_wire.h"

struct bpf_object;

namespace vitrine::bpf {

class WaitingThreads {
 public:
  /// Loads the program. `profiler` is loaded, and outlives this; its maps are shared. Errors: as
  /// Tracer::open; unsupported also where the kernel (6.1, say) has no way to read
  /// the memory of another process.
  static Result<std::unique_ptr<WaitingThreads>> open(bpf_object* profiler);

  virtual ~WaitingThreads() = default;

  /// Looks at every thread there is, once. Those that wait are pending since `began_ns`
  /// (CLOCK_MONOTONIC). The profiler must be told of switches already.
  virtual Result<void> sample(const vitrine_moment_config& config,
                              const vitrine_profile_config& profile_config,
                              std::uint64_t began_ns) = 0;
};

}  // namespace vitrine::bpf
