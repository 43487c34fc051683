// What the fuzz targets share: the input as the memory of a target.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "base/memory.hpp"

namespace vitrine::fuzz {

/// The input's bytes at one address, and nothing anywhere else.
class RegionMemory : public Memory {
 public:
  RegionMemory(Address base, std::span<const std::byte> bytes) : base_(base), bytes_(bytes) {}

  void read(std::span<ReadRequest> requests) override {
    for (ReadRequest& request : requests) {
      request.got = 0;
      if (request.address < base_ || request.address - base_ >= bytes_.size()) continue;
      const auto from = bytes_.subspan(static_cast<std::size_t>(request.address - base_));
      request.got = std::min(from.size(), request.into.size());
      if (request.got != 0) std::memcpy(request.into.data(), from.data(), request.got);
    }
  }

 private:
  Address base_;
  std::span<const std::byte> bytes_;
};

/// Where every target puts its input: above limits::lowest_address. The seeds know it, too.
inline constexpr Address base = 0x10000;

inline std::span<const std::byte> bytes(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}

/// Whether a view that was made of a record stays in it.
inline bool within(std::span<const std::byte> record, std::span<const std::byte> part) {
  return part.empty() || (part.data() >= record.data() &&
                          part.data() + part.size() <= record.data() + record.size());
}

/// A property that must hold whatever the input.
inline void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace vitrine::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
