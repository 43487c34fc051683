#include "publish/set/kept.hpp"

#include <cstring>

#include "publish/base/thread.hpp"
#include "publish/set/block_layout.hpp"

namespace vitrine::publish {
namespace {

/// Serials are taken for a cell's next so many sets at once: all threads share the counter.
constexpr std::uint32_t serials_at_once = 64;

Cells* kept_cells_of(Arena& arena) noexcept {
  if (arena.kept != nullptr) return arena.kept;
  Cells* made = make_cells();
  if (made == nullptr) return nullptr;
  if (local_compare_exchange(arena.kept, static_cast<Cells*>(nullptr), made)) return made;
  unmake_cells(made);  // a signal handler was quicker
  return arena.kept;
}

/// A copy of a set in this library's layout. Everything that it refers to is inside.
Block* copy_of(Arena& arena, const Block& from) noexcept {
  const std::size_t bytes = from.head.trailer.total_bytes;
  const Room room = room_to_keep(arena, bytes);
  if (room.memory == nullptr) return nullptr;
  begin_block(room.memory);
  const auto moved =
      reinterpret_cast<std::uint64_t>(room.memory) - reinterpret_cast<std::uint64_t>(&from);
  std::memcpy(room.memory + sizeof(Block), &from + 1, bytes - sizeof(Block));
  auto* entry = reinterpret_cast<Entry*>(room.memory + sizeof(Block));
  for (const Entry* end = entry + from.count(); entry != end; ++entry) {
    entry->key.data += moved;
    entry->value.data += moved;
  }
  Layout layout;
  layout.labels = from.count();
  layout.attributes = labels::detail::record(from).attrs_size;
  layout.strings = bytes - layout.strings_at();
  return finish_block(room, layout, from.own(), nullptr);
}

/// The last copy made, for later calls. A handler that comes meanwhile leaves it alone.
class Shared {
 public:
  explicit Shared(Arena& arena) noexcept : arena_(arena), mine_(!arena.keeping) {
    if (!mine_) return;
    arena.keeping = true;
    local_fence();
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() {
    if (!mine_) return;
    local_fence();
    arena_.keeping = false;
  }

  [[nodiscard]] Block* find(std::uint64_t serial) const noexcept {
    if (!mine_ || arena_.kept_of != serial) return nullptr;
    hold_kept(*arena_.kept_last);
    return arena_.kept_last;
  }
  void replace(std::uint64_t serial, Block* block) noexcept {
    if (!mine_) return;
    Block* before = arena_.kept_last;
    if (block != nullptr) hold_kept(*block);
    arena_.kept_last = block;
    arena_.kept_of = serial;
    if (before != nullptr) let_go_of_kept(*before);
  }

 private:
  Arena& arena_;
  bool mine_;
};

}  // namespace

Room room_to_keep(Arena& arena, std::size_t bytes) noexcept {
  Cells* cells = kept_cells_of(arena);
  if (cells == nullptr) return {nullptr, nullptr, 0};
  const Work work(*cells);
  Cell* cell = take(work, size_class_of(sizeof(Kept) + bytes));
  if (cell == nullptr) return {nullptr, nullptr, 0};
  auto& kept = *reinterpret_cast<Kept*>(cell);
  if (kept.serials_left == 0) {
    kept.page.first_serial = new_serials(serials_at_once) - 1;
    kept.serials_left = serials_at_once;
  }
  --kept.serials_left;
  kept.holds.store(1, std::memory_order_relaxed);
  return {reinterpret_cast<char*>(kept.block()), &kept.page, ++kept.page.first_serial};
}

Block* keep(Arena& arena, Block& block) noexcept {
  if (is_kept(block)) {
    hold_kept(block);
    return &block;
  }
  const std::uint64_t serial = block.serial();
  Shared shared(arena);
  if (Block* known = shared.find(serial)) return known;
  Block* copy = copy_of(arena, block);
  if (copy != nullptr) shared.replace(serial, copy);
  return copy;
}

void let_go_of_kept(Block& block) noexcept {
  Kept& kept = Kept::of(block);
  if (kept.holds.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const Thread& self = thread();
  Cells* here = has_arena(self) ? static_cast<Arena*>(self.arena)->kept : nullptr;
  if (here == nullptr) return give_back(&kept.cell, nullptr);
  const Work work(*here);
  give_back(&kept.cell, &work);
}

void forget_kept(Arena& arena) noexcept {
  Shared(arena).replace(0, nullptr);
}

}  // namespace vitrine::publish
