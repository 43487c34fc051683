// Records of BPF programs as values: event headers, fires, samples, and the label sets they
// carry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/memory.hpp"
#include "base/result.hpp"
#include "bpf/wire/event.h"
#include "bpf/wire/profile.h"
#include "bpf/wire/trace.h"
#include "bpf/wire/wire.h"

namespace vitrine::bpf {

// Reading what every record of our programs in the kernel has: a thread at one time, and the label
// sets in force then. Pure, no kernel needed.

/// One definition's label set, as the thread displayed it. Sets of one epoch with the same head.id
/// (other than 0) have the same kept chunks: a key to keep decoded labels by.
struct FireSet {
  vitrine_fire_set head{};
  std::vector<ChunkMemory::Chunk> chunks;  ///< the fresh ones, then the kept ones
  std::span<const std::byte> kept;         ///< the kept ones, as they came; empty: sent before
  bool forgotten = false;                  ///< sent before, and no longer known here
};

/// The name of the thread.
std::string comm_of(const vitrine_event_header& header);

/// Takes apart the chunks of a label set. Error: malformed.
Result<void> parse_fire_chunks(std::span<const std::byte> bytes,
                               std::vector<ChunkMemory::Chunk>& into);

// KeptSets: the label sets that records have carried, to be had again by their ids.

class KeptSets {
 public:
  /// `max_bytes`: of one epoch. Two are kept: a record may have been begun in the one before.
  explicit KeptSets(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  /// Keeps what the sets of a record bring, and gives the others what was kept under their ids.
  void complete(const vitrine_event_header& header, std::span<FireSet> sets);

  /// The epoch of the sets that are being kept. It goes up when there are too many: then the kernel
  /// must send all of them anew.
  [[nodiscard]] std::uint32_t epoch() const { return current_.epoch; }

 private:
  struct Epoch {
    std::uint32_t epoch = 1;
    std::size_t bytes = 0;
    std::unordered_map<std::uint64_t, std::vector<std::byte>> sets;
  };

  Epoch* of(std::uint32_t epoch);
  void keep(Epoch& epoch, const FireSet& set);

  std::size_t max_bytes_;
  Epoch current_;
  Epoch before_{0, 0, {}};
};

// Reading what the tracer emits: pure, no kernel needed.

/// One capture. `bytes`: a string's, or the raw bytes of a value of more than 8 bytes.
struct Captured {
  vitrine_captured head{};
  std::span<const std::byte> bytes;

  [[nodiscard]] bool ok() const { return head.state == VITRINE_CAPTURED; }
};

/// A record of the ring buffer. Its views live as long as the bytes it was parsed from.
struct Fire {
  vitrine_fire head{};
  std::vector<Captured> captures;
  std::vector<FireSet> sets;
  std::vector<std::uint64_t> stack;  ///< where it fired, then return addresses
  vitrine_pair start{};              ///< of VITRINE_RECORD_PAIR
  std::vector<Captured> start_captures;

  [[nodiscard]] std::string comm() const { return comm_of(head.event); }
};

/// Takes a record apart, into `fire` (whose vectors are used again). Error: malformed.
Result<void> parse_fire(std::span<const std::byte> record, Fire& fire);

// Reading what the profiler emits: pure, no kernel needed.

/// A record of the ring buffer. Its views live as long as the bytes it was parsed from.
struct StackSample {
  vitrine_stack_sample head{};  ///< begins with the vitrine_event_header that fires have, too
  std::vector<FireSet> sets;
  std::vector<std::uint64_t> kernel_stack;  ///< leaf first; empty: it was in user code
  /// As struct pt_regs of the machine; empty: the thread has no user code (a kernel's own).
  std::vector<std::uint64_t> registers;
  /// Of user code, leaf first, with VITRINE_UNWIND_RETURNS; empty: not unwound (head.unwound).
  std::vector<std::uint64_t> frames;
  Address stack_start = 0;           ///< of the bytes below
  std::span<const std::byte> stack;  ///< from the stack pointer upward
  /// Of the stack that a thread of Go has left for the one that it is on; empty: none is known.
  std::span<const std::byte> left_stack;
  Address left_start = 0;
  /// Off the CPU: what ended the wait, of VITRINE_SAMPLE_WAKER. Null: not asked for, not known, or it has not ended.
  std::shared_ptr<StackSample> waker;
};

/// Takes a record apart, into `sample` (whose vectors are used again). Error: malformed.
Result<void> parse_stack_sample(std::span<const std::byte> record, StackSample& sample);

/// The same of a sample that is one by its model. Nothing: the record is another one.
std::optional<vitrine_span_sample> parse_span_sample(std::span<const std::byte> record);

// Reading what the sampler emits: pure, no kernel needed.

/// One definition as the interrupt found it.
struct SampledSet {
  vitrine_set head{};
  std::span<const std::byte> content;      ///< the chunks as they lie in the sample
  std::vector<ChunkMemory::Chunk> chunks;  ///< views into it
};

struct Sample {
  vitrine_sample head{};
  std::vector<SampledSet> sets;

  [[nodiscard]] std::string comm() const;
};

/// Takes a sample apart. The views in it live as long as `bytes`. Error: malformed.
Result<Sample> parse_sample(std::span<const std::byte> bytes);

}  // namespace vitrine::bpf
