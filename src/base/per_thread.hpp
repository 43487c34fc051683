// PerThread: one object for each thread that asks for one.
#pragma once

#include <pthread.h>

#include <cstdlib>
#include <utility>

namespace vitrine {

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
    static const int at_exit = std::atexit(end);
    static_cast<void>(at_exit);
    if (key.is_there) ::pthread_setspecific(key.key, value_);
  }
  static void end() { delete std::exchange(value_, nullptr); }

  inline static thread_local T* value_ = nullptr;
};

}  // namespace vitrine
