// ChunkMemory: the bytes that came with a sample or an ordered read, and no others.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "base/memory.hpp"

namespace vitrine {

/// Views of bytes that somebody else keeps. What they do not hold is not readable; `missed` tells
/// where a decoder asked for more than there is.
class ChunkMemory final : public Memory {
 public:
  struct Chunk {
    Address address = 0;
    std::span<const std::byte> bytes;
  };

  explicit ChunkMemory(std::vector<Chunk> chunks) : chunks_(std::move(chunks)) {}

  void read(std::span<ReadRequest> requests) override;

  /// The first address each incomplete read could not serve.
  [[nodiscard]] const std::vector<Address>& missed() const { return missed_; }

 private:
  std::vector<Chunk> chunks_;
  std::vector<Address> missed_;
};

}  // namespace vitrine
