// Kept sets: what `labels::Set` refers to. A kept set is a block in a cell of its own (cells.hpp), so
// that it keeps no more memory than itself for as long as it lives: sets of scopes share pages, and
// a page is used again as a whole.
//
// Any thread may hold a kept set and let go of it. The last to let go gives the cell back to the
// thread that made the set.
#pragma once

#include <atomic>

#include "publish/base/block.hpp"
#include "publish/base/cells.hpp"

namespace vitrine::publish {

/// In front of the block.
struct alignas(64) Kept {
  Cell cell;
  PageHead page;  ///< of this block alone; no thread counts uses of it. `first_serial`: see below
  std::atomic<std::uint32_t> holds;
  std::uint32_t
      serials_left;  ///< serials for later sets of this cell: `first_serial` is the last used

  static Kept& of(Block& block) noexcept { return *(reinterpret_cast<Kept*>(&block) - 1); }
  [[nodiscard]] Block* block() noexcept { return reinterpret_cast<Block*>(this + 1); }
};
static_assert(sizeof(Kept) == 64);

/// Whether a block is a kept one, and not one of a scope.
inline bool is_kept(Block& block) noexcept {
  return block.links.page == &Kept::of(block).page;
}

/// Room for a set of so many bytes, held once. Null memory: none to be had.
Room room_to_keep(Arena& arena, std::size_t bytes) noexcept;

/// The set in force, held once more: itself if it is kept, else a copy. The copy of a scope's set is
/// shared by calls that come one after the other. Null: no memory.
Block* keep(Arena& arena, Block& block) noexcept;

inline void hold_kept(Block& block) noexcept {
  Kept::of(block).holds.fetch_add(1, std::memory_order_relaxed);
}
void let_go_of_kept(Block& block) noexcept;

/// The copy that is shared is not, any more: the thread ends.
void forget_kept(Arena& arena) noexcept;

}  // namespace vitrine::publish
