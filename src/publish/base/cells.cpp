#include "publish/base/cells.hpp"

#include <sys/mman.h>

#include <new>

#include "publish/base/arena.hpp"

namespace vitrine::publish {
namespace {

constexpr std::size_t chunk_bytes = 64 * 1024;
/// Larger cells are mapped one by one.
constexpr std::size_t chunk_cell_max = 8 * 1024;
/// Cells begin on 64 bytes, and none where a chunk does: so the cursor names its chunk.
constexpr std::size_t chunk_head = 64;

Cells* all_cells = nullptr;  ///< the last that were listed

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
    char* chunk = map_memory(chunk_bytes, chunk_bytes);
    if (chunk == nullptr) return nullptr;
    const auto start = reinterpret_cast<std::uint64_t>(chunk) + chunk_head;
    if (local_compare_exchange(cells.cursor, cursor, start + bytes))
      return reinterpret_cast<char*>(start);
    munmap(chunk, chunk_bytes);  // a handler was quicker
  }
}

Cell* take_fresh(Cells& cells, unsigned size_class) noexcept {
  constexpr std::size_t system_page = 4096;
  const std::size_t bytes = bytes_of_class(size_class);
  char* memory =
      bytes <= chunk_cell_max ? claim_fresh(cells, bytes) : map_memory(bytes, system_page);
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
  static_assert(sizeof(Cells) < chunk_bytes - chunk_head - chunk_cell_max);
  char* chunk = map_memory(chunk_bytes, chunk_bytes);
  if (chunk == nullptr) return nullptr;
  auto* cells = ::new (chunk) Cells{};
  for (unsigned i = 0; i < size_classes; ++i) cells->queues[i].size_class = i;
  cells->last_used = cells->queues;
  cells->cursor = reinterpret_cast<std::uint64_t>(chunk) + (sizeof(Cells) + 63) / 64 * 64;
  return cells;
}

void unmake_cells(Cells* cells) noexcept {
  munmap(cells, chunk_bytes);
}

void list_cells(Cells& cells) noexcept {
  Cells* first = __atomic_load_n(&all_cells, __ATOMIC_RELAXED);
  do {
    cells.listed_before = first;
  } while (!__atomic_compare_exchange_n(&all_cells, &first, &cells, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED));
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
    Cells::Queue& queue = cells.queues[size_class];
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
  Cells::Queue& queue = owner.queues[cell->size_class];
  while (queue.last - queue.first == Cells::Queue::capacity) {
    if (Cell* oldest = take_oldest(*work, queue)) push_free(owner, oldest);
  }
  queue.cells[queue.last % Cells::Queue::capacity] = cell;
  ++queue.last;
}

}  // namespace vitrine::publish
