// Operations that are atomic towards signal handlers of the same thread, and no more: on x86-64 one
// instruction without the lock prefix (20 times cheaper).
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <vitrine/detail/memo.hpp>

namespace vitrine::publish {

using labels::detail::local_fence;
using labels::detail::local_increment;

inline std::uint64_t local_load(const std::uint64_t& word) noexcept {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}

inline void local_store(std::uint64_t& word, std::uint64_t value) noexcept {
  __atomic_store_n(&word, value, __ATOMIC_RELAXED);
}

inline bool local_compare_exchange(std::uint64_t& word, std::uint64_t expected,
                                   std::uint64_t desired) noexcept {
#if defined(__x86_64__)
  bool done = false;
  __asm__ volatile("{cmpxchgq %3, %1|cmpxchg %1, %3}"
                   : "=@ccz"(done), "+m"(word), "+a"(expected)
                   : "r"(desired)
                   : "memory");
  return done;
#else
  return __atomic_compare_exchange_n(&word, &expected, desired, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED);
#endif
}

template <class T>
inline bool local_compare_exchange(T*& pointer, T* expected, T* desired) noexcept {
#if defined(__x86_64__)
  bool done = false;
  __asm__ volatile("{cmpxchgq %3, %1|cmpxchg %1, %3}"
                   : "=@ccz"(done), "+m"(pointer), "+a"(expected)
                   : "r"(desired)
                   : "memory");
  return done;
#else
  return __atomic_compare_exchange_n(&pointer, &expected, desired, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED);
#endif
}

inline void local_or(std::uint64_t& word, std::uint64_t bits) noexcept {
#if defined(__x86_64__)
  __asm__ volatile("{orq %1, %0|or %0, %1}" : "+m"(word) : "r"(bits) : "memory", "cc");
#else
  __atomic_fetch_or(&word, bits, __ATOMIC_RELAXED);
#endif
}

/// Two words that change together, aligned to their size.
struct alignas(16) WordPair {
  std::uint64_t first;
  std::uint64_t second;
};

/// Both words at once; towards other CPUs each by itself, after everything stored before.
inline bool local_compare_exchange(WordPair& pair, WordPair expected, WordPair desired) noexcept {
  bool done = false;
#if defined(__x86_64__)
  __asm__ volatile("cmpxchg16b %1"
                   : "=@ccz"(done), "+m"(pair), "+a"(expected.first), "+d"(expected.second)
                   : "b"(desired.first), "c"(desired.second)
                   : "memory");
#elif defined(__aarch64__)
  std::uint64_t first = 0, second = 0;
  std::uint32_t failed = 0;
  __asm__ volatile(
      "1: ldaxp %0, %1, %3\n"
      "   cmp %0, %4\n"
      "   ccmp %1, %5, #0, eq\n"
      "   b.ne 2f\n"
      "   stlxp %w2, %6, %7, %3\n"
      "   cbnz %w2, 1b\n"
      "   b 3f\n"
      "2: clrex\n"
      "3:\n"
      : "=&r"(first), "=&r"(second), "=&r"(failed), "+Q"(pair)
      : "r"(expected.first), "r"(expected.second), "r"(desired.first), "r"(desired.second)
      : "memory", "cc");
  done = first == expected.first && second == expected.second;
#else
#error "this architecture has no known way to change two words atomically"
#endif
  return done;
}

/// Everything stored before is seen by all CPUs before anything after it is loaded.
inline void full_fence() noexcept {
#if defined(__x86_64__)
  __asm__ volatile("{lock; orl $0, (%%rsp)|lock; or dword ptr [rsp], 0}" ::: "memory", "cc");
#elif defined(__aarch64__)
  __asm__ volatile("dmb ish" ::: "memory");
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

// Lock: holds a mutex until its scope ends. (std::mutex reports errors by exceptions.)

class Lock {
 public:
  explicit Lock(pthread_mutex_t& mutex) noexcept : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t& mutex_;
};

}  // namespace vitrine::publish

// What ThreadSanitizer cannot see: an assembler instruction that publishes memory.

#if defined(__SANITIZE_THREAD__)
#define VITRINE_DETAIL_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VITRINE_DETAIL_THREAD_SANITIZER 1
#endif
#endif

#if VITRINE_DETAIL_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace vitrine::publish {

/// What was stored before is there for a thread that loads `*address` with acquire order.
inline void sanitizer_release(void* address) noexcept {
#if VITRINE_DETAIL_THREAD_SANITIZER
  __tsan_release(address);
#else
  (void)address;
#endif
}

}  // namespace vitrine::publish
