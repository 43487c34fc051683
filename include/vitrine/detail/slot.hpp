// The thread's place on display: the words that observers read, as one 16-byte unit.
//
// Not an interface: what <vitrine/labels.hpp> and <vitrine/coroutine.hpp> are made of.
#pragma once

#include <cstdint>

namespace vitrine::labels::detail {

/// What one store puts in force. ABI v1: {OpenTelemetry record or 0, label set or 0}, so that both
/// formats change together. ABI v0: {labels, count}.
using Words = unsigned long long __attribute__((vector_size(16)));

/// One thread's state. The public TLS symbols are names for parts of `slot`.
struct Thread {
  Words slot;
  void* arena;  ///< where this thread's sets are made; null until its first use
  /// The memory of the thread's sets of the C interface, where nothing else is to be considered when
  /// one is put in force; otherwise null.
  void* cells;
};
static_assert(sizeof(Thread) == 32);

#define VITRINE_ALWAYS_INLINE inline __attribute__((always_inline))
// clang before 17 keeps the address of a thread-local variable across the suspension of a
// coroutine, after which the thread may be another. There, what uses it is a function of its own.
#if defined(__clang__) && __clang_major__ < 17
#define VITRINE_ON_THREAD inline __attribute__((noinline))
#else
#define VITRINE_ON_THREAD VITRINE_ALWAYS_INLINE
#endif

extern "C" {
extern __thread Thread vitrine_labels_thread __attribute__((visibility("default")));
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

}  // namespace vitrine::labels::detail
