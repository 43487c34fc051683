// BoundedMemory: a Memory with an end to its patience.
#pragma once

#include "base/memory.hpp"

namespace vitrine {

/// Passes on reads until `requests` or `bytes` have been asked for; then nothing is readable any
/// more. Each structure of a hostile target is bounded by itself, but structures within structures
/// multiply: this bounds the whole of what one search may cost.
class BoundedMemory final : public Memory {
 public:
  BoundedMemory(Memory& memory, std::uint64_t requests, std::uint64_t bytes)
      : memory_(memory), requests_(requests), bytes_(bytes) {}

  void read(std::span<ReadRequest> requests) override {
    std::uint64_t bytes = 0;
    for (ReadRequest& request : requests) {
      request.got = 0;
      bytes += request.into.size();
    }
    if (exhausted_ || requests.size() > requests_ || bytes > bytes_) {
      exhausted_ = true;
      return;
    }
    requests_ -= requests.size();
    bytes_ -= bytes;
    memory_.read(requests);
  }

  [[nodiscard]] bool exhausted() const { return exhausted_; }

 private:
  Memory& memory_;
  std::uint64_t requests_;
  std::uint64_t bytes_;
  bool exhausted_ = false;
};

}  // namespace vitrine
