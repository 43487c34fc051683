// Arena: the memory of one thread's label sets. Sets are claimed from the front of pages; a page is
// used again when nothing refers to any of its sets, preferably 50 ms after it was last in use, so
// that an observer slower than that is safe without any check of its own. Pages are never unmapped: the
// memory is cut from slabs (slab.hpp).
//
// Claiming is safe against signal handlers of the same thread that claim, too: a claim is one
// instruction on the ring's cursor, and a handler that comes while its ring turns a page takes the
// next ring. No lock, no malloc; more memory is cut when live sets fill what is there.
//
// The arena of a thread that ended goes to another thread as it is, after a while: pages, their counters, memo
// and cells, with sets in them that other threads still hold. Until then it is in one of two lists: threads that end push
// theirs on the first, by one instruction. A thread that begins moves these to the end of the second, and takes the
// oldest; one thread at a time does so, and none waits for it for long.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vitrine/detail/memo.hpp>

#include "publish/base/local_atomic.hpp"

namespace vitrine::publish {

struct Arena;
struct Cells;
using labels::detail::Block;
using labels::detail::PageHead;
struct Handle;
struct Version;

/// At the start of its own memory, which is aligned to its size (a power of two).
struct alignas(64) Page : labels::detail::PageHead {
  Page* next;                                   ///< in its queue
  std::uint64_t starts[2];                      ///< one bit per unit: a set begins here
  std::atomic<std::uint32_t> closed_elsewhere;  ///< scopes closed by other threads
  std::uint8_t unit_shift;
  std::uint16_t seen;     ///< the low bits of `ended()` at `left_ms`
  std::uint32_t left_ms;  ///< when it was last known to be in use; coarse clock

  /// In this order a handler that comes in between, and opens and closes a scope, can only make it
  /// look in use.
  [[nodiscard]] bool quiescent() const noexcept {
    const std::uint32_t uses_ended = ended();
    local_fence();
    return __atomic_load_n(&opened, __ATOMIC_RELAXED) == uses_ended;
  }
  [[nodiscard]] std::uint32_t ended() const noexcept {
    return closed + closed_elsewhere.load(std::memory_order_acquire);
  }
};
static_assert(sizeof(Page) == 64);

struct Queue {
  Page* first;
  Page* last;  ///< if `first` is not null
};

/// Pages of one size.
struct Ring {
  std::uint64_t cursor;  ///< address of the page being filled, plus the next free unit; 0: none yet
  std::uint32_t page_bytes;
  std::uint32_t unit_shift;
  std::uint32_t pages;   ///< all of them
  std::uint32_t wanted;  ///< up to here, taking a new page is better than reusing one too early
  Queue left;            ///< in the order in which they were left
  Queue parked;          ///< found in use when their turn came; looked at again from time to time
  Page* hot;             ///< left last, in neither queue; null: none
  char* fresh;           ///< memory for pages not used yet
  char* fresh_end;
  bool turning;  ///< a page is being turned: a handler that sees this takes the next ring
};

using labels::detail::small_page_bytes;
inline constexpr std::size_t small_unit_shift = 6;
inline constexpr std::size_t small_block_max = 2 * 1024;
inline constexpr std::size_t large_page_bytes = 256 * 1024;
inline constexpr std::size_t large_unit_bytes = 4 * 1024;
inline constexpr std::size_t large_block_max = large_page_bytes - large_unit_bytes;
inline constexpr std::size_t memo_entries = 64;

/// What a thread has to do with the sets of the C interface (handle.hpp).
struct HandleUse {
  static constexpr int levels = 4;
  static constexpr std::uint64_t counted = 1;

  Cells* cells;    ///< null: not used yet
  Version* shown;  ///< the version that it was last given a pointer into; held
  /// Handles that the slot alone does not show to be in force, the last first; 0: none. Those of
  /// other threads, which are held, with `counted` added; and those below scopes.
  std::uint64_t held[levels];
  bool settling;  ///< `held` is being changed: a handler that sees this leaves it alone
};

struct Arena {  // NOLINT(clang-analyzer-optin.performance.Padding): applications know the order
  labels::detail::Recall memo[memo_entries];  // first: scopes look here without a call
  Ring small[3];
  Ring large[2];
  labels::detail::Segment near;       ///< for an attachment that is within no other
  labels::detail::Segment* segments;  ///< more of them, not used, linked by `below`
  std::uint32_t spare_segments;       ///< about so many
  std::uint32_t retired_ms;
  Arena* next;    ///< in the quarantine
  bool settling;  ///< the list of segments is being put right
  HandleUse handles;
  // Sets that live on by themselves (kept.hpp).
  Cells* kept;            ///< null: not used yet
  Block* kept_last;       ///< held; null: none
  std::uint64_t kept_of;  ///< the serial of the set that `kept_last` is a copy of
  bool keeping;           ///< the two are in use: a handler that sees this leaves them alone
};

/// A claimed run of units; its page counts one more use, and is not turned before `close_use`.
struct Claim {
  void* memory;
  Page* page;
};

/// Where a set is written: the memory, the future value of its `Links::page`, and its serial.
struct Room {
  char* memory;  ///< null: there is none
  PageHead* page;
  std::uint64_t serial;
};

/// So many serials that no other set of the process has; the first of them.
std::uint64_t new_serials(std::uint64_t count) noexcept;

/// Claims `bytes` (64-byte aligned; at most large_block_max). Null memory: none to be had.
Claim claim(Arena& arena, std::size_t bytes) noexcept;

/// The page that a ring's cursor points into, and the unit of it.
inline Page* page_at(std::uint64_t cursor, std::size_t page_bytes) noexcept {
  return reinterpret_cast<Page*>(cursor & ~(std::uint64_t{page_bytes} - 1));
}

/// Claims `units` of a page at `cursor`, where they fit. False: a handler moved the cursor.
inline bool claim_at(std::uint64_t& ring_cursor, std::uint64_t cursor, Page& page, std::size_t unit,
                     std::size_t units) noexcept {
  local_increment(page.opened);  // first, so that no handler turns to this page from here on
  local_fence();
  if (!local_compare_exchange(ring_cursor, cursor, cursor + units)) {
    local_increment(page.closed);
    return false;
  }
  local_or(page.starts[unit / 64], std::uint64_t{1} << (unit % 64));
  return true;
}

/// What was claimed, as room for a set.
inline Room room_of(const Claim& claimed) noexcept {
  if (claimed.memory == nullptr) return {nullptr, nullptr, 0};
  auto* memory = static_cast<char*>(claimed.memory);
  const auto unit = static_cast<std::uint64_t>(memory - reinterpret_cast<char*>(claimed.page)) >>
                    claimed.page->unit_shift;
  return {memory, claimed.page, claimed.page->first_serial + unit};
}

/// The small page that a block is in.
inline Page& small_page_of(void* block) noexcept {
  return *reinterpret_cast<Page*>(reinterpret_cast<std::uintptr_t>(block) &
                                  ~std::uintptr_t{small_page_bytes - 1});
}

/// `claim` for at most small_block_max bytes, which are in a small page. Null: none to be had.
inline char* claim_small(Arena& arena, std::size_t bytes) noexcept {
  const std::size_t units = (bytes + 63) >> small_unit_shift;
  Ring& ring = arena.small[0];
  const std::uint64_t cursor = local_load(ring.cursor);
  Page* page = page_at(cursor, small_page_bytes);
  const std::size_t unit = cursor & (small_page_bytes - 1);
  if (__builtin_expect(page != nullptr && unit + units <= small_page_bytes >> small_unit_shift &&
                           !ring.turning && claim_at(ring.cursor, cursor, *page, unit, units),
                       1))
    return reinterpret_cast<char*>(page) + (unit << small_unit_shift);
  return static_cast<char*>(claim(arena, bytes).memory);
}

/// Ends one use that `claim`, or an increment of `opened`, began. `here`: the arena of the running
/// thread.
inline void close_use(Page& page, const void* here) noexcept {
  if (page.owner == here)
    local_increment(page.closed);
  else
    page.closed_elsewhere.fetch_add(1, std::memory_order_release);
}

/// A segment to use, and one that is not used any more. The memory of segments stays what it is:
/// those of one thread may end up with another.
labels::detail::Segment* take_segment(Arena& arena) noexcept;
void give_pooled_segment(Arena& arena, labels::detail::Segment& segment) noexcept;
inline void give_segment(Arena& arena, labels::detail::Segment& segment) noexcept {
  if (__builtin_expect(!segment.in_arena, 0)) return give_pooled_segment(arena, segment);
  __atomic_store_n(&segment.taken, false, __ATOMIC_RELEASE);  // the arena may be another thread's
}

/// A new arena, or that of a thread that ended some time ago. Null: no memory.
Arena* acquire_arena() noexcept;
/// The running thread is done with it.
void retire_arena(Arena* arena) noexcept;
/// The running thread ends: if a signal handler left acquire_arena by siglongjmp, other threads take arenas again.
void end_taking() noexcept;
/// In a forked child: what any thread may take memory from is forgotten. Other threads may have changed it while the
/// system copied one page after the other, so that the child may have a later state of one and an earlier
/// one of another.
void forget_shared_memory() noexcept;

}  // namespace vitrine::publish
