#include "publish/arena.hpp"

#include <sys/mman.h>
#include <time.h>

#include <new>

#include "publish/local_atomic.hpp"

namespace vitrine::publish {
namespace {

constexpr std::uint64_t quiet_ms = 50;
constexpr std::size_t arena_bytes = 256 * 1024;
constexpr std::size_t chunk_pages = 8;

/// Every set of the process gets its serial from here, a page's worth at a time.
std::atomic<std::uint64_t> next_serial{1};

std::uint64_t now_ms() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

/// `bytes` of zeroes, aligned to `alignment`; both are multiples of the system's page.
char* map(std::size_t bytes, std::size_t alignment) noexcept {
  void* got = mmap(nullptr, bytes + alignment, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  char* start = static_cast<char*>(got);
  const std::size_t before =
      (alignment - reinterpret_cast<std::uintptr_t>(start) % alignment) % alignment;
  if (before != 0) munmap(start, before);
  munmap(start + before + bytes, alignment - before);
  return start + before;
}

Page* page_of(const Ring& ring, std::uint64_t cursor) noexcept {
  return reinterpret_cast<Page*>(cursor & ~(std::uint64_t{ring.page_bytes} - 1));
}

/// Forgets the sets of a page that nothing refers to. Their serials go to 0 before anything else is
/// written over them, so a copy that was begun before cannot pass for a whole set.
void clean(Page& page) noexcept {
  for (std::size_t word = 0; word < 2; ++word) {
    for (std::uint64_t bits = page.starts[word]; bits != 0; bits &= bits - 1) {
      const std::size_t unit = word * 64 + static_cast<std::size_t>(__builtin_ctzll(bits));
      char* block = reinterpret_cast<char*>(&page) + (unit << page.unit_shift);
      __atomic_store_n(reinterpret_cast<std::uint64_t*>(block + 32), 0, __ATOMIC_RELAXED);
    }
    page.starts[word] = 0;
  }
  page.live = 0;
  page.closed_elsewhere.store(0, std::memory_order_relaxed);
}

Page* new_page(Arena& arena, Ring& ring) noexcept {
  if (ring.fresh == ring.fresh_end) {
    const std::size_t bytes =
        ring.page_bytes == small_page_bytes ? chunk_pages * small_page_bytes : ring.page_bytes;
    char* memory = map(bytes, ring.page_bytes);
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

void link_after(Page* where, Page* page) noexcept {
  page->next = where->next;
  where->next = page;
}

void park(Ring& ring, Page* page) noexcept {
  page->next = nullptr;
  (ring.parked == nullptr ? ring.parked : ring.parked_last->next) = page;
  ring.parked_last = page;
}

/// Puts parked pages that fell quiet back into the ring. A few a turn: what a turn costs stays the
/// same however many sets are held for long.
void unpark(Ring& ring, Page* current, std::uint64_t now) noexcept {
  for (int looked = 0; ring.parked != nullptr && looked < 4; ++looked) {
    Page* page = ring.parked;
    ring.parked = page->next;
    if (page->quiescent()) {
      page->left_ms = now;
      link_after(current, page);
    } else {
      park(ring, page);
    }
  }
}

/// The oldest page that nothing refers to, or null.
Page* oldest_quiet(Ring& ring, Page* current, std::uint64_t now) noexcept {
  while (current->next != current) {
    Page* page = current->next;
    if (page->quiescent()) {
      if (page->touched.exchange(false, std::memory_order_relaxed)) page->left_ms = now;
      return page;
    }
    current->next = page->next;
    park(ring, page);
  }
  return nullptr;
}

Page* next_page(Arena& arena, Ring& ring, Page* current) noexcept {
  if (current == nullptr) {
    Page* page = new_page(arena, ring);
    if (page != nullptr) page->next = page;
    return page;
  }
  const std::uint64_t now = now_ms();
  current->left_ms = now;
  unpark(ring, current, now);
  Page* oldest = oldest_quiet(ring, current, now);
  if (oldest != nullptr && (ring.pages >= ring.wanted || now - oldest->left_ms >= quiet_ms)) {
    clean(*oldest);
    return oldest;
  }
  Page* page = new_page(arena, ring);
  if (page != nullptr) {
    link_after(current, page);
  } else if (oldest != nullptr) {
    clean(*oldest);
    page = oldest;
  }
  return page;
}

bool turn_page(Arena& arena, Ring& ring) noexcept {
  ring.turning = true;
  local_fence();
  Page* page = next_page(arena, ring, page_of(ring, ring.cursor));
  if (page != nullptr) {
    page->first_serial =
        next_serial.fetch_add(ring.page_bytes >> ring.unit_shift, std::memory_order_relaxed);
    page->touched.store(true, std::memory_order_relaxed);
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
    Page* page = page_of(ring, cursor);
    const std::size_t unit = cursor & (ring.page_bytes - 1);
    if (page == nullptr || unit + units > page_units) {
      if (!turn_page(arena, ring)) break;
      continue;
    }
    ++page->live;  // first, so that no handler turns to this page from here on
    local_fence();
    if (local_compare_exchange(ring.cursor, cursor, cursor + units)) {
      local_or(page->starts[unit / 64], std::uint64_t{1} << (unit % 64));
      return {reinterpret_cast<char*>(page) + (unit << ring.unit_shift), page};
    }
    --page->live;
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
  char* memory = map(arena_bytes, small_page_bytes);
  if (memory == nullptr) return nullptr;
  Arena* arena = new (memory) Arena();
  // The rest of the mapping is small pages; handlers that interrupt the turning of a page are rare.
  constexpr std::size_t reserve = 2;
  constexpr std::size_t main = arena_bytes / small_page_bytes - 1 - 2 * reserve;
  char* pages = memory + small_page_bytes;
  set_up(arena->small[0], small_page_bytes, 64, pages, main);
  set_up(arena->small[1], small_page_bytes, 64, pages + main * small_page_bytes, reserve);
  set_up(arena->small[2], small_page_bytes, 64, pages + (main + reserve) * small_page_bytes,
         reserve);
  for (Ring& ring : arena->large) set_up(ring, large_page_bytes, large_unit_bytes, nullptr, 0);
  return arena;
}

/// Arenas of threads that ended, oldest first. Each waits a second: an observer may still follow a
/// pointer it read before.
constexpr std::uint64_t quarantine_ms = 1000;
std::atomic_flag quarantine_busy = ATOMIC_FLAG_INIT;
Arena* quarantine_first = nullptr;
Arena* quarantine_last = nullptr;

}  // namespace

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
  // Not waiting: this may be a signal handler that interrupted the holder.
  if (!quarantine_busy.test_and_set(std::memory_order_acquire)) {
    Arena* arena = quarantine_first;
    if (arena != nullptr && now_ms() - arena->retired_ms >= quarantine_ms) {
      quarantine_first = arena->next;
      if (quarantine_first == nullptr) quarantine_last = nullptr;
    } else {
      arena = nullptr;
    }
    quarantine_busy.clear(std::memory_order_release);
    if (arena != nullptr) return arena;
  }
  return new_arena();
}

void retire_arena(Arena* arena) noexcept {
  arena->next = nullptr;
  while (quarantine_busy.test_and_set(std::memory_order_acquire)) {
    timespec moment{0, 1000};
    nanosleep(&moment, nullptr);
  }
  arena->retired_ms = now_ms();
  (quarantine_last == nullptr ? quarantine_first : quarantine_last->next) = arena;
  quarantine_last = arena;
  quarantine_busy.clear(std::memory_order_release);
}

void reset_quarantine() noexcept {
  quarantine_first = nullptr;
  quarantine_last = nullptr;
  quarantine_busy.clear(std::memory_order_relaxed);
}

}  // namespace vitrine::publish
