#include "publish/base/arena.hpp"

#include <time.h>

#include <new>

#include "publish/base/cells.hpp"
#include "publish/base/slab.hpp"
#include "publish/base/thread.hpp"

namespace vitrine::publish {
namespace {

using labels::detail::Segment;

constexpr std::uint32_t quiet_ms = 50;
constexpr std::size_t arena_bytes = 256 * 1024;
constexpr std::size_t chunk_pages = 8;

/// Every set of the process gets its serial from here, a page's worth at a time.
std::atomic<std::uint64_t> next_serial{1};

std::uint32_t now_ms() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint32_t>(now.tv_sec * 1000 + now.tv_nsec / 1'000'000);
}

/// Forgets the sets of a page that was quiescent. Their serials go to 0 before anything else is
/// written over them, so a copy that was begun before cannot pass for a whole set. False: a handler has put one of them
/// in force meanwhile. It finds them by the memo while `first_serial` is what an entry has, so that goes first, and the
/// page is looked at once more: what was found before has been counted by then, and from then on nothing is found.
bool clean(Page& page) noexcept {
  const std::uint64_t serial = local_load(page.first_serial);
  local_store(page.first_serial, std::uint64_t{0});
  local_fence();
  if (!page.quiescent()) {
    local_store(page.first_serial, serial);
    return false;
  }
  for (std::size_t word = 0; word < 2; ++word) {
    for (std::uint64_t bits = page.starts[word]; bits != 0; bits &= bits - 1) {
      const std::size_t unit = word * 64 + static_cast<std::size_t>(__builtin_ctzll(bits));
      char* block = reinterpret_cast<char*>(&page) + (unit << page.unit_shift);
      __atomic_store_n(reinterpret_cast<std::uint64_t*>(block + 32), 0, __ATOMIC_RELAXED);
    }
    page.starts[word] = 0;
  }
  page.opened = 0;
  page.closed = 0;
  page.closed_elsewhere.store(0, std::memory_order_relaxed);
  return true;
}

Page* new_page(Arena& arena, Ring& ring) noexcept {
  if (ring.fresh == ring.fresh_end) {
    const std::size_t bytes =
        ring.page_bytes == small_page_bytes ? chunk_pages * small_page_bytes : ring.page_bytes;
    char* memory = cut_memory(bytes, ring.page_bytes);
    if (memory == nullptr) return nullptr;
    ring.fresh = memory;
    ring.fresh_end = memory + bytes;
  }
  Page* page = new (ring.fresh) Page();
  ring.fresh += ring.page_bytes;
  page->owner = &arena;
  page->unit_shift = static_cast<std::uint8_t>(ring.unit_shift);
  ++ring.pages;
  return page;
}

/// From now on the page grows old.
void leave(Page& page, std::uint32_t now) noexcept {
  page.seen = static_cast<std::uint16_t>(page.ended());
  page.left_ms = now;
}

void push(Queue& queue, Page* page) noexcept {
  page->next = nullptr;
  (queue.first == nullptr ? queue.first : queue.last->next) = page;
  queue.last = page;
}

Page* pop(Queue& queue) noexcept {
  Page* page = queue.first;
  queue.first = page->next;
  return page;
}

/// Puts parked pages that fell quiet back into the queue. A few a turn: what a turn costs stays the
/// same however many sets are held for long.
void unpark(Ring& ring, std::uint32_t now) noexcept {
  for (int looked = 0; ring.parked.first != nullptr && looked < 4; ++looked) {
    Page* page = pop(ring.parked);
    const bool quiet = page->quiescent();
    if (quiet) leave(*page, now);
    push(quiet ? ring.left : ring.parked, page);
  }
}

/// The page left longest ago that nothing refers to, still in the queue; or null.
Page* oldest_quiet(Ring& ring, std::uint32_t now) noexcept {
  while (Page* page = ring.left.first) {
    if (page->quiescent()) {
      if (page->seen != static_cast<std::uint16_t>(page->ended())) leave(*page, now);
      return page;
    }
    push(ring.parked, pop(ring.left));
  }
  return nullptr;
}

/// The page to fill next, in order of preference: one left 50 ms ago; a new one, up to the bound;
/// the one left last (its lines are still in the cache: a thread that gets here makes sets so fast
/// that none would grow old enough); whichever there is.
Page* next_page(Arena& arena, Ring& ring, Page* current) noexcept {
  if (current == nullptr) return new_page(arena, ring);
  const std::uint32_t now = now_ms();
  leave(*current, now);
  unpark(ring, now);
  Page* oldest = oldest_quiet(ring, now);
  Page* next = nullptr;
  if (oldest != nullptr && now - oldest->left_ms >= quiet_ms) {
    next = pop(ring.left);
  } else if (ring.pages < ring.wanted) {
    next = new_page(arena, ring);
  }
  const bool is_fast = next == nullptr;
  if (is_fast) {
    if (ring.hot != nullptr && ring.hot->quiescent()) {
      next = ring.hot;
      ring.hot = nullptr;
    } else if (oldest != nullptr) {
      next = pop(ring.left);
    }
  }
  if (next != nullptr && !clean(*next)) {
    push(ring.parked, next);
    next = nullptr;
  }
  if (next == nullptr) next = new_page(arena, ring);
  if (next == nullptr) return nullptr;
  if (!is_fast) {
    push(ring.left, current);
  } else {
    if (ring.hot != nullptr) push(ring.left, ring.hot);
    ring.hot = current;
  }
  return next;
}

bool turn_page(Arena& arena, Ring& ring) noexcept {
  ring.turning = true;
  local_fence();
  Page* page = next_page(arena, ring, page_at(ring.cursor, ring.page_bytes));
  if (page != nullptr) {
    page->first_serial = new_serials(ring.page_bytes >> ring.unit_shift);
    local_fence();
    // Unit 0 is the page's own header.
    local_store(ring.cursor, reinterpret_cast<std::uint64_t>(page) + 1);
  }
  local_fence();
  ring.turning = false;
  return page != nullptr;
}

Claim claim_from(Arena& arena, Ring& ring, std::size_t bytes) noexcept {
  const std::size_t units = (bytes + (std::size_t{1} << ring.unit_shift) - 1) >> ring.unit_shift;
  const std::size_t page_units = ring.page_bytes >> ring.unit_shift;
  while (!ring.turning) {
    const std::uint64_t cursor = local_load(ring.cursor);
    Page* page = page_at(cursor, ring.page_bytes);
    const std::size_t unit = cursor & (ring.page_bytes - 1);
    if (page == nullptr || unit + units > page_units) {
      if (!turn_page(arena, ring)) break;
      continue;
    }
    if (claim_at(ring.cursor, cursor, *page, unit, units))
      return {reinterpret_cast<char*>(page) + (unit << ring.unit_shift), page};
  }
  return {nullptr, nullptr};
}

void set_up(Ring& ring, std::size_t page_bytes, std::size_t unit_bytes, char* fresh,
            std::size_t pages) noexcept {
  ring.page_bytes = static_cast<std::uint32_t>(page_bytes);
  ring.unit_shift = static_cast<std::uint32_t>(__builtin_ctzll(unit_bytes));
  ring.wanted = static_cast<std::uint32_t>(pages == 0 ? 4 : pages);
  ring.fresh = fresh;
  ring.fresh_end = fresh + pages * page_bytes;
}

Arena* new_arena() noexcept {
  static_assert(sizeof(Arena) <= small_page_bytes);
  char* memory = cut_memory(arena_bytes, small_page_bytes);
  if (memory == nullptr) return nullptr;
  Arena* arena = new (memory) Arena();
  // The rest is small pages; handlers that interrupt the turning of a page are rare.
  constexpr std::size_t reserve = 2;
  constexpr std::size_t main = arena_bytes / small_page_bytes - 1 - 2 * reserve;
  char* pages = memory + small_page_bytes;
  set_up(arena->small[0], small_page_bytes, 64, pages, main);
  set_up(arena->small[1], small_page_bytes, 64, pages + main * small_page_bytes, reserve);
  set_up(arena->small[2], small_page_bytes, 64, pages + (main + reserve) * small_page_bytes,
         reserve);
  for (Ring& ring : arena->large) set_up(ring, large_page_bytes, large_unit_bytes, nullptr, 0);
  arena->near.innermost = &arena->near;
  arena->near.in_arena = true;
  return arena;
}

/// An arena waits until no observer is likely to follow a pointer that it read before: a second while few wait, as long
/// as a page where more do.
constexpr std::uint32_t quarantine_ms = 1000;
constexpr std::uint32_t max_waiting = 64;

/// Arenas of threads that ended, the last first. Any thread and any handler may push one.
std::atomic<Arena*> retired{nullptr};
/// The thread that takes an arena, by its thread pointer; null: none does.
std::atomic<const void*> taker{nullptr};
/// Those that it has moved here so far, oldest first.
Arena* waiting_first = nullptr;
Arena* waiting_last = nullptr;  ///< if `waiting_first` is not null
std::atomic<std::uint32_t> waiting{0};

void forget_waiting() noexcept {
  waiting_first = nullptr;
  waiting.store(0, std::memory_order_relaxed);
  taker.store(nullptr, std::memory_order_release);
}

/// Takes an arena that waited for long enough. Null: none.
///
/// A signal handler that leaves this by siglongjmp leaves `taker` set. Whether the thread is still in here, and this
/// is another handler of it, cannot be known while it lives. Until it ends (end_taking), threads that begin take new
/// memory, some 20 KiB each, after a wait of a millisecond. Then the arenas that waited are forgotten, because their list may be
/// half changed: as much memory as they have is lost, once for each such jump.
class Taking {
 public:
  Taking() noexcept {
    const void* self = thread_pointer();
    for (int tries = 0; tries < max_tries; ++tries) {
      const void* other = taker.load(std::memory_order_relaxed);
      if (other == nullptr &&
          taker.compare_exchange_strong(other, self, std::memory_order_acquire)) {
        entered_ = true;
        return;
      }
      if (other == self) return;  // this is a handler that interrupted it
      if (tries < max_tries - max_sleeps) continue;
      const timespec briefly{0, 1000};
      nanosleep(&briefly, nullptr);
    }
  }
  Taking(const Taking&) = delete;
  Taking& operator=(const Taking&) = delete;
  ~Taking() {
    if (entered_) taker.store(nullptr, std::memory_order_release);
  }

  [[nodiscard]] Arena* oldest() noexcept {
    if (!entered_) return nullptr;
    take_over_retired();
    Arena* arena = waiting_first;
    if (arena == nullptr) return nullptr;
    const std::uint32_t many = waiting.load(std::memory_order_relaxed);
    const std::uint32_t waited_ms = now_ms() - arena->retired_ms;
    if (waited_ms < (many > max_waiting ? quiet_ms : quarantine_ms)) return nullptr;
    waiting_first = arena->next;
    waiting.store(many - 1, std::memory_order_relaxed);
    return arena;
  }

 private:
  /// Another thread has it for some instructions. If that is interrupted, or stopped until this one goes
  /// on, a new arena is better than to wait for longer. (A sleep takes some 50 us.)
  static constexpr int max_tries = 128;
  static constexpr int max_sleeps = 16;

  /// They become the last that wait.
  static void take_over_retired() noexcept {
    if (retired.load(std::memory_order_relaxed) == nullptr) return;
    Arena* arena = retired.exchange(nullptr, std::memory_order_acquire);
    Arena* const last = arena;
    Arena* first = nullptr;
    std::uint32_t count = 0;
    for (; arena != nullptr; ++count) {
      Arena* before = arena->next;
      arena->next = first;
      first = arena;
      arena = before;
    }
    (waiting_first == nullptr ? waiting_first : waiting_last->next) = first;
    waiting_last = last;
    waiting.store(waiting.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }

  bool entered_ = false;
};

/// Segments that threads have too many of, for those that have none.
std::atomic<Segment*> shared_segments{nullptr};
constexpr std::uint32_t kept_segments = 64;
constexpr std::size_t segments_bytes = 16 * 1024;

void push(Segment*& list, Segment& segment) noexcept {
  auto& head = reinterpret_cast<std::uint64_t&>(list);
  std::uint64_t first = 0;
  do {
    first = local_load(head);
    segment.below = reinterpret_cast<Segment*>(first);
  } while (!local_compare_exchange(head, first, reinterpret_cast<std::uint64_t>(&segment)));
}

/// Null: the list is empty. A handler gives back what it takes, so that what was first and is so again
/// has the same one behind it, or others are lost to the list, which is no more than a waste.
Segment* pop(Segment*& list) noexcept {
  auto& head = reinterpret_cast<std::uint64_t&>(list);
  while (true) {
    const std::uint64_t first = local_load(head);
    if (first == 0) return nullptr;
    auto* segment = reinterpret_cast<Segment*>(first);
    if (local_compare_exchange(head, first, reinterpret_cast<std::uint64_t>(segment->below)))
      return segment;
  }
}

}  // namespace

std::uint64_t new_serials(std::uint64_t count) noexcept {
  return next_serial.fetch_add(count, std::memory_order_relaxed);
}

Segment* take_segment(Arena& arena) noexcept {
  if (Segment* segment = pop(arena.segments)) {
    if (arena.spare_segments > 0) --arena.spare_segments;
    return segment;
  }
  Segment* more = shared_segments.exchange(nullptr, std::memory_order_acquire);
  if (more == nullptr) {
    char* memory = cut_memory(segments_bytes, alignof(Segment));
    if (memory == nullptr) return nullptr;
    for (std::size_t i = segments_bytes / sizeof(Segment); i > 0; --i) {
      auto* segment = new (memory + (i - 1) * sizeof(Segment)) Segment();
      segment->below = more;
      more = segment;
    }
  }
  Segment* first = more;
  for (Segment* next = more->below; next != nullptr;) {
    Segment* after = next->below;
    push(arena.segments, *next);
    ++arena.spare_segments;
    next = after;
  }
  return first;
}

void give_pooled_segment(Arena& arena, Segment& segment) noexcept {
  if (arena.spare_segments < kept_segments) {
    push(arena.segments, segment);
    ++arena.spare_segments;
    return;
  }
  segment.below = shared_segments.load(std::memory_order_relaxed);
  while (!shared_segments.compare_exchange_weak(segment.below, &segment, std::memory_order_release,
                                                std::memory_order_relaxed)) {
  }
}

Claim claim(Arena& arena, std::size_t bytes) noexcept {
  if (bytes <= small_block_max) {
    for (Ring& ring : arena.small) {
      if (const Claim got = claim_from(arena, ring, bytes); got.memory != nullptr) return got;
    }
  } else if (bytes <= large_block_max) {
    for (Ring& ring : arena.large) {
      if (const Claim got = claim_from(arena, ring, bytes); got.memory != nullptr) return got;
    }
  }
  return {nullptr, nullptr};
}

Arena* acquire_arena() noexcept {
  // Where no thread has ended, threads that begin at the same time do not meet.
  if (retired.load(std::memory_order_relaxed) != nullptr ||
      waiting.load(std::memory_order_relaxed) != 0) {
    if (Arena* arena = Taking().oldest()) return arena;
  }
  return new_arena();
}

void retire_arena(Arena* arena) noexcept {
  arena->retired_ms = now_ms();
  Arena* first = retired.load(std::memory_order_relaxed);
  do {
    arena->next = first;
  } while (!retired.compare_exchange_weak(first, arena, std::memory_order_release,
                                          std::memory_order_relaxed));
}

void forget_shared_memory() noexcept {
  forget_slab();
  forget_spare_cells();
  shared_segments.store(nullptr, std::memory_order_relaxed);
  retired.store(nullptr, std::memory_order_relaxed);
  // A handler that interrupted this thread in there has forked: it goes on, and no other thread was in there.
  if (taker.load(std::memory_order_relaxed) != thread_pointer()) forget_waiting();
}

void end_taking() noexcept {
  if (taker.load(std::memory_order_relaxed) == thread_pointer()) forget_waiting();
}

}  // namespace vitrine::publish
