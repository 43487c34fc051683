#include "publish/base/slab.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>

namespace vitrine::publish {
namespace {

/// What is cut consists of these. (Where the system's pages are larger, they are shared by what is cut.)
constexpr std::size_t piece = 4096;
constexpr std::size_t first_slab_bytes = 512 * 1024;
constexpr std::size_t max_slab_bytes = 8 * 1024 * 1024;

/// The free part of the slab in use: the address of its first piece, plus the number of pieces. 0: no slab yet.
std::atomic<std::uint64_t> free_part{0};
static_assert(max_slab_bytes / piece < piece && first_slab_bytes >= max_cut_bytes);
/// How large the next slab is. Two threads may store it at once: it is a guess.
std::atomic<std::size_t> next_slab_bytes{first_slab_bytes};

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t to) noexcept {
  return (value + to - 1) / to * to;
}

/// A mapping. Null: none.
char* map(std::size_t bytes, std::size_t alignment) noexcept {
  void* got = mmap(nullptr, bytes + alignment, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  // Where the system's pages are larger than a piece, the ends may stay mapped, and untouched.
  const auto begin = reinterpret_cast<std::uint64_t>(got);
  const std::uint64_t start = round_up(begin, alignment);
  const std::uint64_t after = begin + alignment - start;
  if (start != begin) munmap(got, start - begin);
  if (after != 0) munmap(reinterpret_cast<char*>(start + bytes), after);
  madvise(reinterpret_cast<char*>(start), bytes, MADV_NOHUGEPAGE);
  return reinterpret_cast<char*>(start);
}

}  // namespace

char* cut_memory(std::size_t bytes, std::size_t alignment) noexcept {
  bytes = round_up(bytes, piece);
  if (alignment < piece) alignment = piece;
  std::uint64_t now = free_part.load(std::memory_order_relaxed);
  while (true) {
    const std::uint64_t pieces = now % piece, end = now - pieces + pieces * piece;
    const std::uint64_t start = round_up(now - pieces, alignment);
    if (start + bytes <= end) {
      const std::uint64_t rest = start + bytes + (end - start - bytes) / piece;
      if (free_part.compare_exchange_weak(now, rest, std::memory_order_relaxed))
        return reinterpret_cast<char*>(start);
      continue;
    }
    const std::size_t slab_bytes = next_slab_bytes.load(std::memory_order_relaxed);
    char* slab = map(slab_bytes, slab_alignment);
    if (slab == nullptr) return map(bytes, alignment);
    const std::uint64_t rest =
        reinterpret_cast<std::uint64_t>(slab) + bytes + (slab_bytes - bytes) / piece;
    if (free_part.compare_exchange_strong(now, rest, std::memory_order_relaxed)) {
      if (slab_bytes < max_slab_bytes)
        next_slab_bytes.store(slab_bytes * 2, std::memory_order_relaxed);
      return slab;
    }
    munmap(slab, slab_bytes);  // another thread or a handler was quicker
  }
}

void forget_slab() noexcept {
  free_part.store(0, std::memory_order_relaxed);
  next_slab_bytes.store(first_slab_bytes, std::memory_order_relaxed);
}

}  // namespace vitrine::publish
