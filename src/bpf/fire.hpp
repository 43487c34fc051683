// Reading what the tracer emits: pure, no kernel needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/chunk_memory.hpp"
#include "bpf/trace_wire.h"

namespace vitrine::bpf {

/// One capture. `bytes`: a string's, or the raw bytes of a value of more than 8 bytes.
struct Captured {
  vitrine_captured head{};
  std::span<const std::byte> bytes;

  [[nodiscard]] bool ok() const { return head.state == VITRINE_CAPTURED; }
};

/// One definition's label set, as the firing thread displayed it. Sets of one epoch with the same
/// head.id (other than 0) have the same kept chunks: a key to keep decoded labels by.
struct FireSet {
  vitrine_fire_set head{};
  std::vector<ChunkMemory::Chunk> chunks;  ///< the fresh ones, then the kept ones
  std::span<const std::byte> kept;         ///< the kept ones, as they came; empty: sent before
  bool forgotten = false;                  ///< sent before, and no longer known here
};

/// A record of the ring buffer. Its views live as long as the bytes it was parsed from.
struct Fire {
  vitrine_fire head{};
  std::vector<Captured> captures;
  std::vector<FireSet> sets;
  std::vector<std::uint64_t> stack;  ///< where it fired, then return addresses

  [[nodiscard]] std::string comm() const;
};

/// Takes a record apart, into `fire` (whose vectors are used again). Error: malformed.
Result<void> parse_fire(std::span<const std::byte> record, Fire& fire);

/// Takes apart the chunks of a label set. Error: malformed.
Result<void> parse_fire_chunks(std::span<const std::byte> bytes,
                               std::vector<ChunkMemory::Chunk>& into);

}  // namespace vitrine::bpf
