// ByteMemory: bytes of its own, from an address on.
#pragma once

#include <utility>
#include <vector>

#include "base/memory.hpp"

namespace vitrine {

/// For what was unpacked or copied and is read like the file or process that it came from.
class ByteMemory final : public Memory {
 public:
  explicit ByteMemory(std::vector<std::byte> bytes, Address start = 0)
      : bytes_(std::move(bytes)), start_(start) {}

  void read(std::span<ReadRequest> requests) override {
    for (ReadRequest& request : requests) {
      const std::uint64_t at = request.address - start_;
      request.got = 0;
      if (at >= bytes_.size() || request.into.empty()) continue;
      request.got = std::min(request.into.size(), bytes_.size() - static_cast<std::size_t>(at));
      std::memcpy(request.into.data(), bytes_.data() + at, request.got);
    }
  }

 private:
  std::vector<std::byte> bytes_;
  Address start_;
};

}  // namespace vitrine
