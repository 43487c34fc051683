// PerThread: one object for each thread that asks for one.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <utility>

namespace vitrine {

namespace detail {

/// A kind of per-thread object that there has been. The kinds are a list, the latest first; a kind
/// is never taken off it.
struct PerThreadKind {
  void (*end)();
  PerThreadKind* next = nullptr;

  inline static std::atomic<PerThreadKind*> latest{nullptr};

  void add() {
    next = latest.load(std::memory_order_relaxed);
    while (!latest.compare_exchange_weak(next, this, std::memory_order_release)) continue;
  }
};

}  // namespace detail

/// Ends the objects of this thread, for a process that ends without std::exit. No other thread of
/// it makes any at that time.
inline void end_objects_of_this_thread() {
  using detail::PerThreadKind;
  for (const auto* kind = PerThreadKind::latest.load(std::memory_order_acquire); kind != nullptr;
       kind = kind->next)
    kind->end();
}

/// A `thread_local` object whose making may fail: registering the destructor of a thread_local
/// object takes memory, and libc ends the program when there is none. Here T's constructor throws
/// std::bad_alloc, the next call tries again, and an object whose destructor cannot be registered
/// lives as long as the process. Objects end with their thread, or, on the thread that calls
/// std::exit, with the process, the latest made first.
template <class T>
class PerThread {
 public:
  static T& get() {
    if (value_ == nullptr) {
      value_ = new T;
      keep();
    }
    return *value_;
  }

 private:
  static void keep() {
    struct Key {
      pthread_key_t key = 0;
      bool is_there = ::pthread_key_create(&key, [](void*) { end(); }) == 0;
    };
    static const Key key;
    static detail::PerThreadKind kind{end};
    static const int at_exit = [] {
      kind.add();
      return std::atexit(end);
    }();
    static_cast<void>(at_exit);
    if (key.is_there) ::pthread_setspecific(key.key, value_);
  }
  static void end() { delete std::exchange(value_, nullptr); }

  inline static thread_local T* value_ = nullptr;
};

}  // namespace vitrine
