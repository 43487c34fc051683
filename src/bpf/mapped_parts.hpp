// MappedParts: memory of a BPF map, of which parts are mapped once they are reached. The kernel makes all pages of a
// mapping at once, which takes longer than all else that is done with most of them.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace vitrine::bpf {

class MappedParts {
 public:
  /// Of the map's memory, `bytes` bytes from `offset` on; both are whole pages. Nothing is mapped yet.
  MappedParts(int map, off_t offset, std::size_t bytes, int protection)
      : map_(map), offset_(offset), protection_(protection), part_(part_of(bytes)) {
    void* const reserved =
        ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) return;
    all_ = {static_cast<std::byte*>(reserved), bytes};
    is_mapped_.resize((bytes + part_ - 1) / part_);
  }
  ~MappedParts() {
    if (!all_.empty()) ::munmap(all_.data(), all_.size());
  }
  MappedParts(const MappedParts&) = delete;
  MappedParts& operator=(const MappedParts&) = delete;

  /// Null: there is no room for it.
  [[nodiscard]] std::byte* begin() const { return all_.data(); }

  /// Whether `bytes` bytes from `from` on are there, which are within. False: errno has the reason.
  bool reach(const void* from, std::size_t bytes) {
    if (bytes == 0) return true;
    const auto at = static_cast<std::size_t>(static_cast<const std::byte*>(from) - all_.data());
    for (std::size_t part = at / part_; part <= (at + bytes - 1) / part_; ++part) {
      if (is_mapped_[part]) continue;
      const std::size_t offset = part * part_;
      const std::size_t size = std::min(part_, all_.size() - offset);
      if (::mmap(all_.data() + offset, size, protection_, MAP_SHARED | MAP_FIXED, map_,
                 offset_ + static_cast<off_t>(offset)) == MAP_FAILED)
        return false;
      is_mapped_[part] = true;
    }
    return true;
  }

 private:
  /// No part of a page; and not many parts, as each is a mapping of its own.
  static constexpr std::size_t part_of(std::size_t bytes) {
    constexpr std::size_t fewest = 64U << 10, most_parts = 256;
    return std::max(fewest, (bytes / most_parts + fewest - 1) / fewest * fewest);
  }

  int map_;
  off_t offset_;
  int protection_;
  std::size_t part_;
  std::span<std::byte> all_;
  std::vector<bool> is_mapped_;
};

}  // namespace vitrine::bpf
