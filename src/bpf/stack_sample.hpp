// Reading what the profiler emits: pure, no kernel needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/memory.hpp"
#include "base/result.hpp"
#include "bpf/moment.hpp"
#include "bpf/profile_wire.h"

namespace vitrine::bpf {

/// A record of the ring buffer. Its views live as long as the bytes it was parsed from.
struct StackSample {
  vitrine_stack_sample head{};  ///< begins with the vitrine_moment that fires have, too
  std::vector<FireSet> sets;
  std::vector<std::uint64_t> kernel_stack;  ///< leaf first; empty: it was in user code
  /// As struct pt_regs of the machine; empty: the thread has no user code (a kernel's own).
  std::vector<std::uint64_t> registers;
  Address stack_start = 0;           ///< of the bytes below
  std::span<const std::byte> stack;  ///< from the stack pointer upward
};

/// Takes a record apart, into `sample` (whose vectors are used again). Error: malformed.
Result<void> parse_stack_sample(std::span<const std::byte> record, StackSample& sample);

}  // namespace vitrine::bpf
