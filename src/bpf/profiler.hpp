// Profiler: the kernel's side of a profile. It samples what runs, and what waits, with registers, a
// copy of the stack, and labels.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "base/result.hpp"
#include "bpf/fire.hpp"
#include "bpf/profile_wire.h"

namespace vitrine::bpf {

struct ProfilerOptions {
  unsigned frequency = 99;                ///< on-CPU samples a second a CPU; 0: none
  bool off_cpu = false;                   ///< of threads that gave up their CPU and came back
  std::chrono::nanoseconds min_block{0};  ///< off-CPU stretches shorter than this are passed over
  bool preempted = false;      ///< off-CPU: also threads that were put off while they could run
  bool every_process = false;  ///< false: those that want() was told of, and what they start
  bool follow = false;         ///< what they fork, too (it is always known by its ancestors)
  std::size_t stack_bytes = 16U << 10;  ///< most of one copy of a stack; limits::stack_copy at most
  std::size_t ring_bytes = 32U << 20;   ///< made a power of two
  std::size_t kept_sets_bytes = 64U << 20;  ///< label sets kept by id, before all are sent anew
};

/// A record of the ring buffer. Its views live as long as the bytes it was parsed from.
struct StackSample {
  vitrine_stack_sample head{};  ///< begins with the vitrine_moment that fires have, too
  std::vector<FireSet> sets;
  std::span<const std::uint64_t> kernel_stack;  ///< leaf first; empty: it was in user code
  /// As struct pt_regs of the machine; all zero: the thread has no user code (a kernel's own).
  std::span<const std::uint64_t> registers;
  Address stack_start = 0;           ///< of the bytes below
  std::span<const std::byte> stack;  ///< from the stack pointer upward
};

/// Takes a record apart, into `sample` (whose vectors are used again). Error: malformed.
Result<void> parse_stack_sample(std::span<const std::byte> record, StackSample& sample);

/// Since the profiler was opened (enum vitrine_profile_counter).
struct ProfilerCounters {
  std::uint64_t samples = 0;
  std::uint64_t lost = 0;          ///< of those: no room in a buffer
  std::uint64_t cut = 0;           ///< pieces of labels that had no room in their sample
  std::uint64_t faults = 0;        ///< pieces of labels that were not resident
  std::uint64_t short_blocks = 0;  ///< off-CPU stretches shorter than min_block
};

class Profiler {
 public:
  using Sink = std::function<void(const StackSample&)>;

  /// Loads the programs; nothing is sampled yet. Errors: as Tracer::open.
  static Result<std::unique_ptr<Profiler>> open(const ProfilerOptions& options);

  virtual ~Profiler() = default;

  virtual Result<void> start() = 0;
  virtual void stop() = 0;

  // As those of Tracer; one interface for both (ProcessTable) is what observe/ talks to.
  virtual Result<void> want(pid_t kernel_tgid, const vitrine_target& target) = 0;
  virtual void forget(pid_t kernel_tgid) = 0;
  virtual void presume(const vitrine_executable& file, const vitrine_target& target) = 0;

  /// Hands over what has come in, waiting for it at most `timeout`. Returns how many.
  virtual Result<std::size_t> poll(std::chrono::milliseconds timeout, const Sink& sink) = 0;

  [[nodiscard]] virtual ProfilerCounters counters() const = 0;
};

}  // namespace vitrine::bpf
