// Reading what every record of our programs in the kernel has: a moment of a thread, and the label
// sets on display then. Pure, no kernel needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/chunk_memory.hpp"
#include "base/result.hpp"
#include "bpf/moment_wire.h"

namespace vitrine::bpf {

/// One definition's label set, as the thread displayed it. Sets of one epoch with the same head.id
/// (other than 0) have the same kept chunks: a key to keep decoded labels by.
struct FireSet {
  vitrine_fire_set head{};
  std::vector<ChunkMemory::Chunk> chunks;  ///< the fresh ones, then the kept ones
  std::span<const std::byte> kept;         ///< the kept ones, as they came; empty: sent before
  bool forgotten = false;                  ///< sent before, and no longer known here
};

/// The name of the thread.
std::string comm_of(const vitrine_moment& moment);

/// Takes apart the chunks of a label set. Error: malformed.
Result<void> parse_fire_chunks(std::span<const std::byte> bytes,
                               std::vector<ChunkMemory::Chunk>& into);

}  // namespace vitrine::bpf
