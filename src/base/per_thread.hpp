// PerThread: one object for each thread that asks for one.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <utility>

namespace vitrine {

namespace detail {

/// How the objects of this thread end, of each kind that there has been.
struct PerThreadEnds {
  static constexpr std::size_t kinds = 16;
  inline static void (*ends[kinds])() = {};
  inline static std::atomic<std::size_t> count{0};

  static void add(void (*end)()) {
    if (const std::size_t at = count.fetch_add(1); at < kinds) ends[at] = end;
  }
};

}  // namespace detail

/// Ends the objects of this thread, for a process that ends without std::exit. No other thread of
/// it makes any at that time.
inline void end_objects_of_this_thread() {
  using detail::PerThreadEnds;
  for (std::size_t at = std::min(PerThreadEnds::count.load(), PerThreadEnds::kinds); at > 0; --at)
    if (PerThreadEnds::ends[at - 1] != nullptr) PerThreadEnds::ends[at - 1]();
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
    static const int at_exit = [] {
      detail::PerThreadEnds::add(end);
      return std::atexit(end);
    }();
    static_cast<void>(at_exit);
    if (key.is_there) ::pthread_setspecific(key.key, value_);
  }
  static void end() { delete std::exchange(value_, nullptr); }

  inline static thread_local T* value_ = nullptr;
};

}  // namespace vitrine
