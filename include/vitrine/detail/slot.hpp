// The thread's published slot: the words that observers read, as one 16-byte unit.
//
// Not an interface: what <vitrine/labels.hpp> and <vitrine/coroutine.hpp> are made of.
#pragma once

#include <vitrine/export.h>

#include <cstddef>
#include <cstdint>

// Without a register of 16 bytes a compiler writes one store of them as two, and a thread interrupted in between
// shows words of two sets.
#if (defined(__x86_64__) && !defined(__SSE2__)) || (defined(__aarch64__) && !defined(__ARM_NEON))
#error \
    "labels are put in force by one store of 16 bytes: compile this file without -mgeneral-regs-only and -mno-sse"
#endif

namespace vitrine::labels {
inline namespace VITRINE_DETAIL_ABI_NAMESPACE {
namespace detail {

/// What one store puts in force. ABI v1: {OpenTelemetry record or 0, label set or 0}, so that both
/// formats change together. ABI v0: {labels, count}.
using Words = unsigned long long __attribute__((__vector_size__(16)));

struct Block;  // an immutable label set

/// A stretch of a thread's work that began with a set of its own, not on top of what was: an Attach,
/// or a coroutine while it runs. Scopes opened meanwhile are on top of that set; they know the
/// segment that they are in, and the thread knows the innermost one. docs/essays/ownership.md has the rules.
///
/// Segments come from a pool whose memory is never given back, so that one that ended elsewhere can
/// still be looked at.
struct Segment {
  Words outer;  ///< in force when it began, and again when it ends
  Words mine;   ///< a coroutine's, while it is suspended
  /// The segment around it on its thread; null: the thread itself. A suspended coroutine's: itself.
  Segment* below;
  /// A suspended coroutine's: the last one within it. If that is not itself, `outer` is `unknown`,
  /// so that a hop, which looks at `outer` anyway, finds out.
  Segment* innermost;
  const Block* base;  ///< the set that it began with; null: none
  void* frame;        ///< a coroutine's, once known: null at first
  /// Sets made again for scopes that know this segment: until they end, it is no other segment.
  std::uint32_t replacements;
  bool coroutine;  ///< else: an Attach
  bool over;       ///< to be given back with the last of them
  bool ended;      ///< its holder is gone; only the thread that lists it can take it out
  bool in_arena;   ///< part of an arena, for its thread's attachments; in use if `taken`
  bool taken;

  /// Words that are never in force.
  static constexpr Words unknown = {1, 1};

  /// Of a coroutine: else it is suspended.
  [[nodiscard]] bool is_running() const noexcept { return below != this; }

  /// The address of a coroutine's frame is known from here on.
  void know(void* its_frame) noexcept {
    if (coroutine) frame = its_frame;
  }

  /// An exception left the coroutine, which has no other way to signal this: it is at its end, although
  /// it was not suspended. (What resumes it, at the start of the frame, is null then.)
  [[nodiscard]] bool abandoned() const noexcept {
    return __atomic_load_n(&ended, __ATOMIC_ACQUIRE) ||
           (frame != nullptr && *static_cast<void* const volatile*>(frame) == nullptr);
  }
};

/// What is entered where nothing is: it is in force nowhere, and always running.
///
/// Hidden: no code compares it with that of another module, and a plug-in would never be unloaded with
/// what gcc makes of other inline variables (STB_GNU_UNIQUE).
inline Segment nowhere __attribute__((__visibility__("hidden"))) = {Segment::unknown,
                                                                    Words{0, 0},
                                                                    nullptr,
                                                                    &nowhere,
                                                                    nullptr,
                                                                    nullptr,
                                                                    0,
                                                                    false,
                                                                    false,
                                                                    false,
                                                                    false,
                                                                    true};

/// One thread's state. The public TLS symbols are names for parts of `slot`.
struct Thread {
  Words slot;
  void* arena;       ///< where this thread's sets are made; null until its first use
  Segment* segment;  ///< the innermost; null: the thread's own scopes
  /// The memory of the thread's sets of the C interface, where no other state must be considered when
  /// one is put in force; otherwise null.
  void* cells;
  /// As `cells`; otherwise something else. So null counts as a set that the thread made.
  void* owner_of_null;
};
static_assert(sizeof(Thread) == 48);

#define VITRINE_DETAIL_ALWAYS_INLINE inline __attribute__((__always_inline__))
// clang before 17 keeps the address of a thread-local variable across the suspension of a
// coroutine, after which the thread may be another. There, what uses it is a function of its own.
// Every compiler may keep it across a call that switches stacks, for which <vitrine/fiber.hpp> has
// VITRINE_FIBERS.
#if defined(VITRINE_FIBERS) || (defined(__clang__) && __clang_major__ < 17)
#define VITRINE_DETAIL_ON_THREAD inline __attribute__((__noinline__))
#else
#define VITRINE_DETAIL_ON_THREAD VITRINE_DETAIL_ALWAYS_INLINE
#endif

extern "C" {
extern __thread Thread vitrine_labels_thread __asm__(VITRINE_DETAIL_THREAD_SYMBOL)
    __attribute__((__visibility__("default")));
}

/// Everything stored before it is seen by other CPUs before anything stored after it. (A compiler
/// barrier alone is not enough on aarch64.)
inline void store_fence() noexcept {
#if defined(__aarch64__)
  __asm__ volatile("dmb ishst" ::: "memory");
#else
  __asm__ volatile("" ::: "memory");
#endif
}

/// What is in force on a thread.
inline Words in_force(const Thread& thread) noexcept {
  return *const_cast<const volatile Words*>(&thread.slot);
}

/// Puts `words` in force by one store instruction: an interrupted thread shows the old set or the
/// new one, never a mixture.
inline void put_in_force(Thread& thread, Words words) noexcept {
  store_fence();
  *const_cast<volatile Words*>(&thread.slot) = words;
  __asm__ volatile("" ::: "memory");
}

}  // namespace detail
}  // namespace VITRINE_DETAIL_ABI_NAMESPACE
}  // namespace vitrine::labels
