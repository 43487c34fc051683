// Reading what the sampler emits: pure, no kernel needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/chunk_memory.hpp"
#include "bpf/wire.h"

namespace vitrine::bpf {

/// One definition as the interrupt found it.
struct SampledSet {
  vitrine_set head{};
  std::vector<ChunkMemory::Chunk> chunks;  ///< views into the sample
};

struct Sample {
  vitrine_sample head{};
  std::vector<SampledSet> sets;

  [[nodiscard]] std::string comm() const;
};

/// Takes a sample apart. The views in it live as long as `bytes`. Error: malformed.
Result<Sample> parse_sample(std::span<const std::byte> bytes);

}  // namespace vitrine::bpf
