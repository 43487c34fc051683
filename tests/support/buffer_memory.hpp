// BufferMemory: a Memory over byte arrays, for tests and fuzzers. Unmapped unless placed.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "base/memory.hpp"

namespace vitrine::test {

class BufferMemory : public Memory {
 public:
  /// Puts bytes at an address. Regions must not overlap.
  void place(Address address, std::vector<std::byte> bytes) {
    regions_[address] = std::move(bytes);
  }

  template <class T>
  void place_value(Address address, const T& value) {
    auto bytes = std::as_bytes(std::span(&value, 1));
    place(address, {bytes.begin(), bytes.end()});
  }

  void read(std::span<ReadRequest> requests) override {
    for (ReadRequest& request : requests) request.got = copy(request);
  }

 private:
  std::size_t copy(const ReadRequest& request) const {
    std::size_t done = 0;
    const std::size_t size = before_end(request.address, request.into.size());
    while (done < size) {
      const Address at = request.address + done;
      auto region = regions_.upper_bound(at);
      if (region == regions_.begin()) break;
      --region;
      const std::uint64_t skip = at - region->first;
      if (skip >= region->second.size()) break;
      const std::size_t n = std::min<std::size_t>(
          region->second.size() - static_cast<std::size_t>(skip), size - done);
      std::memcpy(request.into.data() + done, region->second.data() + skip, n);
      done += n;
    }
    return done;
  }

  std::map<Address, std::vector<std::byte>> regions_;
};

}  // namespace vitrine::test
