// Scopes entered before: the set made then is found again and put in force without a call.
//
// Not an interface: what <vitrine/labels.hpp> is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vitrine/detail/slot.hpp>

namespace vitrine::labels {
inline namespace VITRINE_DETAIL_ABI_NAMESPACE {
namespace detail {

struct Block;
struct KeyData;

/// The compiler moves no memory access across.
inline void local_fence() noexcept {
  __asm__ volatile("" ::: "memory");
}

/// Atomic towards signal handlers of the same thread, and no more: one instruction without the lock
/// prefix (20 times cheaper). By -masm=intel, gcc writes the operand's size itself and clang does not;
/// assemblers take it twice.
inline void local_increment(std::uint32_t& word) noexcept {
#if defined(__x86_64__)
  __asm__ volatile("{incl %0|inc dword ptr %0}" : "+m"(word) : : "cc");
#else
  __atomic_fetch_add(&word, 1, __ATOMIC_RELAXED);
#endif
}

/// What a page of sets begins with.
struct PageHead {
  std::uint64_t first_serial;  ///< a set's serial is this plus the number of its first unit
  const void* owner;           ///< the arena that may claim from it; its thread counts below
  /// Uses begun and ended by that thread. Two counters that only grow: one that goes up and down
  /// would make every scope wait for the one before.
  std::uint32_t opened;
  std::uint32_t closed;
};
inline constexpr std::size_t small_page_bytes = 8 * 1024;

/// Data of a set of this library in addition to the data for observers.
struct Links {
  /// As Words, and in a block aligned as they are. (A typedef: clang does not align an alias less.)
  typedef unsigned long long StoredWords __attribute__((__vector_size__(16), __aligned__(8)));

  std::uint64_t below_serial;  ///< the serial of `below`; 0: no set below
  StoredWords words;           ///< what puts this set in force
  PageHead* page;
  /// The set it was made from; 0: none, or a foreign one. With `replacement`: it replaces
  /// another set, which was made on top of a set that is no longer below.
  std::uintptr_t below;

  static constexpr std::size_t at = 56;             ///< where a block has its links,
  static constexpr std::size_t serial_at = 32;      ///< and its serial
  static constexpr std::uintptr_t replacement = 1;  ///< a bit that no block's address has

  static Links& of(Block* block) noexcept {
    return *static_cast<Links*>(static_cast<void*>(reinterpret_cast<char*>(block) + at));
  }
  static const Links& of(const Block* block) noexcept { return of(const_cast<Block*>(block)); }

  [[nodiscard]] bool is_replacement() const noexcept { return (below & replacement) != 0; }
  [[nodiscard]] Block* parent() const noexcept {
    return reinterpret_cast<Block*>(below & ~replacement);
  }
  /// Made from none of our sets, so that none can have gone: the common case, and one comparison.
  [[nodiscard]] bool stands_alone() const noexcept { return below == 0; }
  /// The set below is still what it was. Only where there is one.
  [[nodiscard]] bool is_in_order() const noexcept {
    return !is_replacement() &&
           __atomic_load_n(reinterpret_cast<const std::uint64_t*>(below + serial_at),
                           __ATOMIC_ACQUIRE) == below_serial;
  }
};
static_assert(sizeof(Links) == 40 && (Links::at + offsetof(Links, words)) % sizeof(Words) == 0);

/// The first and the last bytes: all there is of up to 16, given the size.
struct Ends {
  std::uint64_t head;
  std::uint64_t tail;

  static constexpr std::size_t all = 16;

  static Ends of(const char* bytes, std::size_t size) noexcept {
    if (size >= 8) return {load<std::uint64_t>(bytes), load<std::uint64_t>(bytes + size - 8)};
    if (size >= 4) return {load<std::uint32_t>(bytes), load<std::uint32_t>(bytes + size - 4)};
    if (size == 0) return {0, 0};
    return {load<std::uint8_t>(bytes), std::uint64_t{load<std::uint8_t>(bytes + size / 2)} << 8 |
                                           load<std::uint8_t>(bytes + size - 1)};
  }

 private:
  template <class Type>
  static Type load(const char* from) noexcept {
    Type value;
    std::memcpy(&value, from, sizeof(Type));
    return value;
  }
};

/// What a set is looked up by.
struct MemoKey {
  std::uint64_t outer[2];  ///< the words in force
  std::uint64_t what;      ///< `one`, or `several`
  Ends ends;               ///< of the one value; or a hash of all

  /// One label with a value of at most Ends::all bytes: keys are aligned to 32, so the sum has both.
  static std::uint64_t one(const KeyData* key, std::size_t size) noexcept {
    return reinterpret_cast<std::uintptr_t>(key) + size;
  }
  /// More of them, or a longer value. No key has such an address, and neither has none.
  static std::uint64_t several(std::size_t count) noexcept { return 64 + count; }

  /// 0: nothing is in force. Otherwise it does not name what is, quite.
  [[nodiscard]] std::uint64_t below() const noexcept { return outer[0] + outer[1]; }

  [[nodiscard]] VITRINE_DETAIL_ALWAYS_INLINE std::size_t entry() const noexcept {
    constexpr std::uint64_t mixer = 0x9e3779b97f4a7c15;
    std::uint64_t sum = ends.head + ends.tail * 3 + what;
    // That nothing is in force is decided by a branch, as far as where to look goes: otherwise each
    // scope would wait for the one before it to be put out of force.
    if (__builtin_expect(below() != 0, 0)) {
      sum += below() * 3;
      __asm__ volatile("" : "+r"(sum));
    }
    return sum * mixer >> 58;
  }
};

/// A set made before, and what it was made of. A thread has 64, at the start of its arena.
struct alignas(64) Recall {
  std::uint64_t below;
  std::uint64_t what = none;  ///< `writing`: leave it alone
  Ends ends;
  Block* block;  ///< in a small page; made from one of our sets, or where nothing was in force
  std::uint64_t stamp;  ///< first_serial of the block's page: changes when the page is turned

  /// Matches no lookup.
  static constexpr std::uint64_t none = ~std::uint64_t{0}, writing = none - 1;

  struct Found {
    Block* block;  ///< null: not known
    /// What is in force. Not read from there: if what is put back came from what was put in force
    /// before, each scope would wait for the one before it.
    Words outer;
  };

  /// The set, counted as one more use of its page.
  VITRINE_DETAIL_ALWAYS_INLINE Found find(const MemoKey& asked) const noexcept {
    // A handler that comes in between may store another lookup here, but then the block is
    // another one, or the stamp does not fit.
    const Found found{block, Words{0, 0}};
    const std::uint64_t found_stamp = stamp;
    local_fence();
    // A comparison and its branch are one operation to a CPU; gathering differences is two for each.
    if (__builtin_expect(ends.head != asked.ends.head, 0) ||
        __builtin_expect(ends.tail != asked.ends.tail, 0) ||
        __builtin_expect(what != asked.what, 0) || __builtin_expect(below != asked.below(), 0))
      return {nullptr, Words{0, 0}};
    local_fence();
    if (__builtin_expect(block != found.block, 0)) return {nullptr, Words{0, 0}};
    if (found.block == nullptr)
      __builtin_unreachable();  // what was asked for was noted, with its block
    auto* page = reinterpret_cast<PageHead*>(reinterpret_cast<std::uintptr_t>(found.block) &
                                             ~std::uintptr_t{small_page_bytes - 1});
    local_increment(page->opened);  // first, so that no handler can turn to the page while we look
    local_fence();
    if (__builtin_expect(page->first_serial == found_stamp, 1)) {
      const Links& links = Links::of(found.block);
      if (__builtin_expect(links.stands_alone(), 1)) return found;
      // `below` may be the sum of another set's words, too.
      if (links.is_in_order()) {
        const Words outer = Links::of(links.parent()).words;
        if (outer[0] == asked.outer[0] && outer[1] == asked.outer[1])
          return {found.block, Words{asked.outer[0], asked.outer[1]}};
      }
    }
    local_increment(page->closed);
    return {nullptr, Words{0, 0}};
  }
};
static_assert(sizeof(Recall) == 64);

/// False: first use, or the thread's labels were taken down because it ends.
inline bool has_arena(const Thread& thread) noexcept {
  return reinterpret_cast<std::uintptr_t>(thread.arena) > 1;
}

/// The coroutine that began this segment has ended without a notification.
VITRINE_DETAIL_ALWAYS_INLINE bool is_abandoned(const Segment* segment) noexcept {
  return __builtin_expect(segment != nullptr, 0) && segment->abandoned();
}

/// The words in force, one by one: both are at hand right after the store of the whole.
inline const volatile std::uint64_t* words_in_force(const Thread& thread) noexcept {
  return reinterpret_cast<const volatile std::uint64_t*>(&thread.slot);
}

}  // namespace detail
}  // namespace VITRINE_DETAIL_ABI_NAMESPACE
}  // namespace vitrine::labels
