// Reading what the sampler emits: pure, no kernel needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "bpf/wire.h"

namespace vitrine::bpf {

/// The bytes of the target that came with one definition's reading. Nothing else is readable: a
/// decoder that asks for more has an incomplete sample, and `missed` remembers what it wanted.
class SampleMemory final : public Memory {
 public:
  struct Chunk {
    Address address = 0;
    std::span<const std::byte> bytes;
  };

  explicit SampleMemory(std::vector<Chunk> chunks) : chunks_(std::move(chunks)) {}

  void read(std::span<ReadRequest> requests) override;

  /// Where reads ended early.
  [[nodiscard]] const std::vector<Address>& missed() const { return missed_; }
  [[nodiscard]] const std::vector<Chunk>& chunks() const { return chunks_; }

 private:
  std::vector<Chunk> chunks_;
  std::vector<Address> missed_;
};

/// One definition as the interrupt found it.
struct SampledSet {
  vitrine_set head{};
  std::vector<SampleMemory::Chunk> chunks;  ///< views into the sample
};

struct Sample {
  vitrine_sample head{};
  std::vector<SampledSet> sets;

  [[nodiscard]] std::string comm() const;
};

/// Takes a sample apart. The views in it live as long as `bytes`. Error: malformed.
Result<Sample> parse_sample(std::span<const std::byte> bytes);

}  // namespace vitrine::bpf
