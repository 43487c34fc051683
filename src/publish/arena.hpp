// Arena: the memory of one thread's label sets. Sets are claimed from the front of pages; a page is
// used again when nothing refers to any of its sets, preferably 50 ms after it was last in use, so
// that an observer slower than that is safe without any check of its own. Pages are never unmapped.
//
// Claiming is safe against signal handlers of the same thread that claim, too: a claim is one
// instruction on the ring's cursor, and a handler that comes while its ring turns a page takes the
// next ring. No lock, no malloc; the system is asked for memory when live sets fill what is there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vitrine::labels::detail {
struct Block;
}

namespace vitrine::publish {

struct Arena;

/// At the start of its own memory, which is aligned to its size (a power of two).
struct alignas(64) Page {
  Page* next;                  ///< in the ring, oldest first
  Arena* owner;                ///< who may claim from it and count in `live`
  std::uint64_t first_serial;  ///< a set's serial is this plus the number of its first unit
  std::uint64_t left_ms;       ///< when it was last known to be in use; coarse clock
  std::uint64_t starts[2];     ///< one bit per unit: a set begins here
  std::uint32_t live;          ///< scopes opened by the owner's thread less those closed by it
  std::atomic<std::uint32_t> closed_elsewhere;  ///< scopes closed by other threads
  std::atomic<std::uint32_t> pins;              ///< handles, on whatever thread
  std::uint8_t unit_shift;
  std::atomic<bool> touched;  ///< in use since `left_ms`

  [[nodiscard]] bool quiescent() const noexcept {
    return pins.load(std::memory_order_acquire) == 0 &&
           live == closed_elsewhere.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::size_t unit_of(const void* address) const noexcept {
    return static_cast<std::size_t>(static_cast<const char*>(address) -
                                    reinterpret_cast<const char*>(this)) >>
           unit_shift;
  }
  [[nodiscard]] bool starts_at(const void* address) const noexcept {
    const std::size_t unit = unit_of(address);
    return (starts[unit / 64] >> (unit % 64) & 1) != 0;
  }
  [[nodiscard]] std::uint64_t serial_of(const void* address) const noexcept {
    return first_serial + unit_of(address);
  }

  void pin() noexcept { pins.fetch_add(1, std::memory_order_relaxed); }
  void unpin() noexcept {
    touched.store(true, std::memory_order_relaxed);
    pins.fetch_sub(1, std::memory_order_release);
  }
};
static_assert(sizeof(Page) == 64);

/// Pages of one size in the order in which they were left.
struct Ring {
  std::uint64_t cursor;  ///< address of the page being filled, plus the next free unit; 0: none yet
  std::uint32_t page_bytes;
  std::uint32_t unit_shift;
  std::uint32_t pages;   ///< in the ring or parked
  std::uint32_t wanted;  ///< up to here, taking a new page is better than reusing one too early
  Page* parked;          ///< found in use when their turn came; looked at again from time to time
  Page* parked_last;
  char* fresh;  ///< memory for pages not used yet
  char* fresh_end;
  bool turning;  ///< a page is being turned: a handler that sees this takes the next ring
};

inline constexpr std::size_t small_page_bytes = 8 * 1024;
inline constexpr std::size_t small_unit_shift = 6;
inline constexpr std::size_t small_block_max = 2 * 1024;
inline constexpr std::size_t large_page_bytes = 256 * 1024;
inline constexpr std::size_t large_unit_bytes = 4 * 1024;
inline constexpr std::size_t large_block_max = large_page_bytes - large_unit_bytes;
inline constexpr std::size_t memo_entries = 64;

struct Arena {
  Ring small[3];
  Ring large[2];
  /// The set made last for some (parent, labels); checked against the set itself on use, so a
  /// handler may change an entry at any time.
  labels::detail::Block* memo[memo_entries];
  Arena* next;  ///< in the quarantine
  std::uint64_t retired_ms;
};

/// A claimed run of units; its page counts one more live scope, and cannot be used again before
/// `give_up_claim`, or the closing of a scope, takes that back.
struct Claim {
  void* memory;
  Page* page;
};

/// Claims `bytes` (64-byte aligned; at most large_block_max). Null memory: none to be had.
Claim claim(Arena& arena, std::size_t bytes) noexcept;

/// Ends one use that `claim`, or ++live, began. `here`: the arena of the running thread.
inline void close_use(Page& page, const void* here) noexcept {
  page.touched.store(true, std::memory_order_relaxed);
  if (page.owner == here)
    --page.live;
  else
    page.closed_elsewhere.fetch_add(1, std::memory_order_release);
}

/// A new arena, from the system or from those of threads gone for a second. Null: no memory.
Arena* acquire_arena() noexcept;
/// The running thread is done with it.
void retire_arena(Arena* arena) noexcept;
/// In a forked child, where other threads left the quarantine as it was.
void reset_quarantine() noexcept;

}  // namespace vitrine::publish
