#include "publish/base/cells.hpp"

#include <new>

#include "publish/base/slab.hpp"

namespace vitrine::publish {
namespace {

constexpr std::size_t chunk_bytes = 64 * 1024;
/// Larger cells are cut one by one.
constexpr std::size_t chunk_cell_max = 8 * 1024;
/// Cells begin on 64 bytes, and none where a chunk does: so the cursor names its chunk.
constexpr std::size_t chunk_head = 64;
constexpr std::size_t system_page = 4096;
/// Where a thread's `Cells` are in its first chunk: the queues of the first classes begin with a page.
constexpr std::size_t cells_at = [] {
  constexpr std::size_t small_classes = 9, queue = sizeof(Cells::Queue);
  constexpr std::size_t large = chunk_head + (size_classes - small_classes) * queue;
  constexpr std::size_t page = (large + system_page - 1) / system_page * system_page;
  return (page + small_classes * queue + 63) / 64 * 64;
}();
constexpr std::size_t first_cell_at = cells_at + (sizeof(Cells) + 63) / 64 * 64;
static_assert(first_cell_at + chunk_cell_max < chunk_bytes);

Cells* all_cells = nullptr;  ///< the last that were listed
/// Made, and not used after all; linked by `listed_before`.
Cells* spare_cells = nullptr;

void push(Cells*& list, Cells& cells) noexcept {
  Cells* first = __atomic_load_n(&list, __ATOMIC_RELAXED);
  do {
    cells.listed_before = first;
  } while (!__atomic_compare_exchange_n(&list, &first, &cells, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED));
}

/// Null: none. The list is taken as a whole: one that is popped from it might be the first again by then.
Cells* take_spare() noexcept {
  if (__atomic_load_n(&spare_cells, __ATOMIC_RELAXED) == nullptr) return nullptr;
  Cells* cells = __atomic_exchange_n(&spare_cells, nullptr, __ATOMIC_ACQUIRE);
  if (cells == nullptr) return nullptr;
  for (Cells* other = cells->listed_before; other != nullptr;) {
    Cells* const next = other->listed_before;
    push(spare_cells, *other);
    other = next;
  }
  cells->listed_before = nullptr;
  return cells;
}

/// Where a cell's head is in its memory: a handle's first words are the ABI's.
std::size_t head_of(unsigned size_class) noexcept {
  return is_handle_class(size_class) ? 32 : 0;
}

char* claim_fresh(Cells& cells, std::size_t bytes) noexcept {
  while (true) {
    const std::uint64_t cursor = local_load(cells.cursor);
    const std::uint64_t used = cursor % chunk_bytes;
    if (used != 0 && used + bytes <= chunk_bytes) {
      // Not up to the very end, where the cursor would name the next chunk.
      const std::uint64_t next = used + bytes == chunk_bytes ? 0 : cursor + bytes;
      if (local_compare_exchange(cells.cursor, cursor, next))
        return reinterpret_cast<char*>(cursor);
      continue;
    }
    char* chunk = cut_memory(chunk_bytes, chunk_bytes);
    if (chunk == nullptr) return nullptr;
    const auto start = reinterpret_cast<std::uint64_t>(chunk) + chunk_head;
    if (local_compare_exchange(cells.cursor, cursor, start + bytes))
      return reinterpret_cast<char*>(start);
    // A handler was quicker, within these few instructions: the chunk is lost, and was never touched.
  }
}

Cell* take_fresh(Cells& cells, unsigned size_class) noexcept {
  const std::size_t bytes = bytes_of_class(size_class);
  char* memory =
      bytes <= chunk_cell_max ? claim_fresh(cells, bytes) : cut_memory(bytes, system_page);
  if (memory == nullptr) return nullptr;
  Cell* cell = ::new (memory + head_of(size_class)) Cell{};
  cell->owner = &cells;
  cell->size_class = static_cast<std::uint8_t>(size_class);
  return cell;
}

void push_free(Cells& cells, Cell* cell) noexcept {
  cell->next = cells.free[cell->size_class];
  cells.free[cell->size_class] = cell;
}

void park(Cells& cells, Cell* cell) noexcept {
  cell->next = nullptr;
  (cells.parked == nullptr ? cells.parked : cells.parked_last->next) = cell;
  cells.parked_last = cell;
}

/// Takes the oldest cell of a queue. Null: it is held, and was parked.
Cell* take_oldest(const Work& work, Cells::Queue& queue) noexcept {
  if (queue.first == queue.fenced) fence_queue(queue);
  Cell* cell = queue.cells[queue.first % Cells::Queue::capacity];
  ++queue.first;
  const bool is_handle = is_handle_class(cell->size_class);
  if (cell->is_held() || (is_handle && is_in_force_here(*cell))) {
    park(work.cells(), cell);
    return nullptr;
  }
  if (is_handle) {
    if (Cell* inner = detach(*cell)) give_back(inner, &work);
  }
  return cell;
}

/// Returns parked cells without holders to the queues. A few at a time: what an
/// operation costs stays the same however many are held for long.
void unpark(const Work& work) noexcept {
  Cells& cells = work.cells();
  for (int looked = 0; cells.parked != nullptr && looked < 4; ++looked) {
    Cell* cell = cells.parked;
    cells.parked = cell->next;
    if (cell->is_held())
      park(cells, cell);
    else
      give_back(cell, &work);
  }
}

/// Gives back every cell of a list that no other code can reach any more.
void give_back_all(Cell* list, const Work& work) noexcept {
  while (list != nullptr) {
    Cell* cell = list;
    list = cell->next;
    give_back(cell, &work);
  }
}

/// Takes in what handlers and other threads gave back. Each list is taken over as a whole, by one
/// instruction: from then on its cells are reachable by the local variable alone, so every list taken
/// must be given back to its end. What arrives meanwhile stays in the lists for the next call.
void drain(const Work& work) noexcept {
  Cells& cells = work.cells();
  Cell* list = __atomic_load_n(&cells.nested, __ATOMIC_RELAXED);
  while (!local_compare_exchange(cells.nested, list, static_cast<Cell*>(nullptr)))
    list = __atomic_load_n(&cells.nested, __ATOMIC_RELAXED);
  give_back_all(list, work);
  if (__atomic_load_n(&cells.remote, __ATOMIC_RELAXED) != nullptr)
    give_back_all(__atomic_exchange_n(&cells.remote, nullptr, __ATOMIC_ACQUIRE), work);
}

}  // namespace

Cells* make_cells() noexcept {
  if (Cells* spare = take_spare()) return spare;
  char* chunk = cut_memory(chunk_bytes, chunk_bytes);
  if (chunk == nullptr) return nullptr;
  // Cells without anything given back are zeroes, as the chunk is: to write them would be to touch them.
  auto* cells = reinterpret_cast<Cells*>(chunk + cells_at);
  cells->last_used = &cells->queue(0);
  cells->cursor = reinterpret_cast<std::uint64_t>(chunk) + first_cell_at;
  return cells;
}

void unmake_cells(Cells* cells) noexcept {
  push(spare_cells, *cells);
}

void forget_spare_cells() noexcept {
  __atomic_store_n(&spare_cells, nullptr, __ATOMIC_RELAXED);
}

void list_cells(Cells& cells) noexcept {
  push(all_cells, cells);
  local_fence();
  cells.listed = true;
}

void forget_other_threads(const void* thread_pointer) noexcept {
  for (Cells* cells = __atomic_load_n(&all_cells, __ATOMIC_ACQUIRE); cells != nullptr;
       cells = cells->listed_before) {
    // Only those of threads that lived are written, so that the child copies no page for others.
    const void* of = __atomic_load_n(&cells->thread_pointer, __ATOMIC_RELAXED);
    if (of != nullptr && of != thread_pointer)
      __atomic_store_n(&cells->thread_pointer, nullptr, __ATOMIC_RELAXED);
  }
}

Cell* take_slowly(const Work& work, unsigned size_class) noexcept {
  Cells& cells = work.cells();
  if (work.alone()) {
    drain(work);
    unpark(work);
    Cells::Queue& queue = cells.queue(size_class);
    while (queue.last - queue.first > delay_of(size_class)) {
      if (Cell* cell = take_oldest(work, queue)) return cell;
    }
    if (Cell* cell = cells.free[size_class]) {
      cells.free[size_class] = cell->next;
      return cell;
    }
  }
  return take_fresh(cells, size_class);
}

void give_back_slowly(Cell* cell, const Work* work) noexcept {
  Cells& owner = *cell->owner;
  if (work == nullptr || &work->cells() != &owner) {
    Cell* first = __atomic_load_n(&owner.remote, __ATOMIC_RELAXED);
    do {
      cell->next = first;
    } while (!__atomic_compare_exchange_n(&owner.remote, &first, cell, true, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED));
    return;
  }
  if (!work->alone()) {
    Cell* first = nullptr;
    do {
      first = __atomic_load_n(&owner.nested, __ATOMIC_RELAXED);
      cell->next = first;
      local_fence();
    } while (!local_compare_exchange(owner.nested, first, cell));
    return;
  }
  Cells::Queue& queue = owner.queue(cell->size_class);
  while (queue.last - queue.first == Cells::Queue::capacity) {
    if (Cell* oldest = take_oldest(*work, queue)) push_free(owner, oldest);
  }
  queue.cells[queue.last % Cells::Queue::capacity] = cell;
  ++queue.last;
}

}  // namespace vitrine::publish
