// Cells: the memory of sets that live by themselves, those of the C interface (handle.hpp) and kept
// ones (kept.hpp). A cell has a size class for good and is used again one by one, so a set that
// lives for long keeps no more memory than its own (a page of the arena is used again as a whole).
//
// When a cell is used again. A cell that is given back goes through the queue of its class and is
// taken again when at least `delay` more of the class were given back after it and it has no holder.
// Holds are counted as pages count uses: two counters of the owner's thread, changed without the
// lock prefix, and an atomic one for all other threads. Only the owner's thread takes cells again:
// what other threads give back reaches it by a list.
//
// Holding needs no lock. A reader counts first, and then checks that what it holds is still in use:
// if it is, it was not taken again in between, and will not be. A late reader may count up and down
// on a cell that serves again already: the counters stay where they are for good, and are never
// reset. The writer needs a full fence between taking a version out of use and looking at its
// counter, or it might miss a reader that still found it in use: one fence for a queue of cells.
//
// Signal handlers. Only code that no operation was interrupted for (`Work::alone`) touches the
// queues. A handler inside an operation takes fresh cells, by one instruction on a cursor, and
// gives back to a list that the next operation empties. So what the interrupted code works on is
// not used again under it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vitrine/detail/slot.hpp>

#include "publish/base/local_atomic.hpp"

namespace vitrine::publish {

struct Cells;

struct Cell {
  Cells* owner;  ///< never changes, like `size_class`
  Cell* next;    ///< in a list
  std::uint32_t opened;
  std::uint32_t closed;
  std::uint32_t elsewhere;
  std::uint8_t size_class;
  bool freed;           ///< handles: the caller's ownership ended
  std::uint16_t count;  ///< versions: labels

  /// `here`: the cells of the running thread; null: it has none.
  void hold(const Cells* here) noexcept {
    if (owner == here) {
      local_increment(opened);
      local_fence();
    } else {
      __atomic_fetch_add(&elsewhere, 1, __ATOMIC_SEQ_CST);
    }
  }
  void let_go(const Cells* here) noexcept {
    if (owner == here) {
      local_fence();
      local_increment(closed);
    } else {
      __atomic_fetch_sub(&elsewhere, 1, __ATOMIC_RELEASE);
    }
  }
  /// On the owner's thread. In this order a handler that comes in between, and holds and lets go,
  /// can only make it look held.
  [[nodiscard]] bool is_held() const noexcept {
    const std::uint32_t ended = __atomic_load_n(&closed, __ATOMIC_RELAXED);
    local_fence();
    const std::uint32_t others = __atomic_load_n(&elsewhere, __ATOMIC_ACQUIRE);
    local_fence();
    return __atomic_load_n(&opened, __ATOMIC_RELAXED) - ended + others != 0;
  }
};
static_assert(sizeof(Cell) == 32);

// Size classes: up to 512 bytes in steps of 64, from there on four to each doubling.
inline constexpr unsigned handle_class = 0;  ///< 64 bytes that were never anything but a handle
inline constexpr unsigned record_handle_class = 45;  ///< the same with a record behind it
inline constexpr std::size_t record_handle_bytes = 704;
inline constexpr unsigned size_classes = 46;

constexpr bool is_handle_class(unsigned size_class) noexcept {
  return size_class == handle_class || size_class == record_handle_class;
}
inline constexpr std::size_t cell_bytes_max = 256 * 1024;

constexpr unsigned size_class_of(std::size_t bytes) noexcept {
  const auto units = static_cast<unsigned>((bytes + 63) / 64);
  if (units <= 8) return units;
  const unsigned log = 31 - static_cast<unsigned>(__builtin_clz(units - 1));
  return 8 + (log - 3) * 4 + ((units - 1) >> (log - 2)) - 3;
}
constexpr std::size_t bytes_of_class(unsigned size_class) noexcept {
  if (size_class == handle_class) return 64;
  if (size_class == record_handle_class) return record_handle_bytes;
  if (size_class <= 8) return size_class * std::size_t{64};
  const unsigned log = 3 + (size_class - 9) / 4;
  return std::size_t{5 + (size_class - 9) % 4} << (log - 2) << 6;
}
static_assert(size_class_of(512) == 8 && bytes_of_class(8) == 512);
static_assert(size_class_of(513) == 9 && bytes_of_class(9) == 640);
static_assert(size_class_of(1024) == 12 && bytes_of_class(12) == 1024);
static_assert(size_class_of(cell_bytes_max) == record_handle_class - 1 &&
              bytes_of_class(record_handle_class - 1) == cell_bytes_max);

/// How many cells of a class are given back before one of them is used again. Large ones are a
/// burden while they wait.
constexpr std::uint32_t delay_of(unsigned size_class) noexcept {
  return size_class <= 20 || size_class == record_handle_class ? 16 : 2;
}

/// A thread's, in its first chunk. Belongs to the arena, one for each kind of set.
///
/// The queues lie in front of it, and the first cells behind it: a thread with few small sets touches the page
/// that has all three of them, and no other.
struct Cells {
  /// Given back last, in order. The counters only grow.
  struct Queue {
    static constexpr std::uint32_t capacity = 32;
    std::uint32_t first;
    std::uint32_t last;
    std::uint32_t fenced;      ///< those before are known to be out of use to every CPU
    std::uint32_t size_class;  ///< if `last_used` has been this queue
    Cell* cells[capacity];
  };

  std::uint32_t level;             ///< operations under way: more than one where handlers interrupt
  std::uint64_t cursor;            ///< where fresh cells are claimed from; 0: nowhere
  Cell* nested;                    ///< given back by handlers inside operations
  Cell* remote;                    ///< given back by other threads
  Cell* parked;                    ///< found held when their turn came
  Cell* parked_last;               ///< if `parked` is not null
  Cell* free[size_classes];        ///< may be used right away
  Queue* last_used;                ///< by queue_of
  std::uint64_t layouts;           ///< how many there were (version.hpp)
  labels::detail::Thread* thread;  ///< whose they are
  /// By which the thread is recognised where its thread-local variable is not at hand. Null: not at
  /// all. Otherwise these are its `Thread::cells`.
  const void* thread_pointer;
  Cells* listed_before;  ///< in the list of forget_other_threads
  bool listed;           ///< it is in that list: `thread_pointer` may be set

  [[nodiscard]] Queue& queue(unsigned size_class) noexcept {
    return *(reinterpret_cast<Queue*>(this) - 1 - size_class);
  }
};

/// The queue of a cell's class. Usually it is that of the last one, and does not need to be computed:
/// what is taken from it does not have to wait for the cell.
inline Cells::Queue& queue_of(Cells& cells, const Cell& cell) noexcept {
  Cells::Queue* queue = cells.last_used;
  if (__builtin_expect(queue->size_class != cell.size_class, 0)) {
    queue = &cells.queue(cell.size_class);
    queue->size_class = cell.size_class;
    local_fence();
    cells.last_used = queue;
  }
  return *queue;
}

/// An operation of the running thread on its cells.
class Work {
 public:
  explicit Work(Cells& cells) noexcept : cells_(cells), outer_(cells.level) {
    __atomic_store_n(&cells.level, outer_ + 1, __ATOMIC_RELAXED);
    local_fence();
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work() {
    local_fence();
    __atomic_store_n(&cells_.level, outer_, __ATOMIC_RELAXED);
  }

  [[nodiscard]] bool alone() const noexcept { return outer_ == 0; }
  [[nodiscard]] Cells& cells() const noexcept { return cells_; }

 private:
  Cells& cells_;
  std::uint32_t outer_;
};

/// New memory for a thread's cells. Null: none to be had.
Cells* make_cells() noexcept;
/// Of cells that no thread has used yet.
void unmake_cells(Cells* cells) noexcept;
/// See forget_shared_memory.
void forget_spare_cells() noexcept;

/// Adds cells to the process's list, for good: threads take them over from threads that ended. One
/// instruction, so that a thread that forks finds the list whole.
void list_cells(Cells& cells) noexcept;
/// In a forked child. The threads that did not survive never clear their cells' `thread_pointer`, and
/// a new thread may get the same: glibc and musl use their stacks again.
void forget_other_threads(const void* thread_pointer) noexcept;

Cell* take_slowly(const Work& work, unsigned size_class) noexcept;
void give_back_slowly(Cell* cell, const Work* work) noexcept;

/// Readers that still found cells of the queue in use have counted: a thread that looks now sees
/// it.
inline void fence_queue(Cells::Queue& queue) noexcept {
  full_fence();
  queue.fenced = queue.last;
}

/// A cell without other users. Null: no memory.
inline Cell* take(const Work& work, unsigned size_class) noexcept {
  Cells::Queue& queue = work.cells().queue(size_class);
  if (__builtin_expect(work.alone() && !is_handle_class(size_class) &&
                           queue.last - queue.first > delay_of(size_class) &&
                           queue.first != queue.fenced,
                       1)) {
    Cell* cell = queue.cells[queue.first % Cells::Queue::capacity];
    if (__builtin_expect(!cell->is_held(), 1)) {
      ++queue.first;
      return cell;
    }
  }
  return take_slowly(work, size_class);
}

/// The cell can no longer be found; holders may continue to use it. `work` is null where the running
/// thread has no cells of its own.
inline void give_back(Cell* cell, const Work* work) noexcept {
  if (__builtin_expect(work != nullptr && work->alone() && cell->owner == &work->cells(), 1)) {
    Cells::Queue& queue = cell->owner->queue(cell->size_class);
    if (__builtin_expect(queue.last - queue.first < Cells::Queue::capacity, 1)) {
      queue.cells[queue.last % Cells::Queue::capacity] = cell;
      ++queue.last;
      return;
    }
  }
  give_back_slowly(cell, work);
}

// What a handle's cell needs beside; defined with handles, where there are any.
#if VITRINE_PUBLISH_ABI == 1
/// Whether the running thread has it in force. (Other threads hold it.)
bool is_in_force_here(const Cell& handle) noexcept;
/// What it refers to, which goes when it goes.
Cell* detach(Cell& handle) noexcept;
#else
inline bool is_in_force_here(const Cell&) noexcept {
  return false;
}
inline Cell* detach(Cell&) noexcept {
  return nullptr;
}
#endif

}  // namespace vitrine::publish
