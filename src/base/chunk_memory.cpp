#include "base/chunk_memory.hpp"

namespace vitrine {

void ChunkMemory::read(std::span<ReadRequest> requests) {
  for (ReadRequest& request : requests) {
    request.got = 0;
    // Chunks may continue one another, so the next may have what this one lacks.
    for (bool more = true; more && !request.complete();) {
      more = false;
      for (const Chunk& chunk : chunks_) {
        const std::uint64_t skip = request.address + request.got - chunk.address;
        if (skip >= chunk.bytes.size()) continue;
        const auto from = chunk.bytes.subspan(static_cast<std::size_t>(skip));
        const std::size_t n = std::min(from.size(), request.into.size() - request.got);
        std::memcpy(request.into.data() + request.got, from.data(), n);
        request.got += n;
        more = true;
        break;
      }
    }
    if (!request.complete()) missed_.push_back(request.address + request.got);
  }
}

}  // namespace vitrine
