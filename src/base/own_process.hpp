// What belongs to one process, when a program forks.
//
// A fork copies memory and descriptors, but neither children nor threads: the copy of a Child names a process
// that is none of this one's, the copy of a mutex may be locked by a thread that does not exist, and a socket is one
// that two would use at once. One rule for all of that:
//
//  - Whatever acts on a process, a thread or a connection records in which process it was made (OwnProcess), and
//    looks before it acts.
//  - In another process, nothing is done to them: no kill, wait, join, lock or message. The object forgets them, and its
//    descriptors are closed, which the maker does not notice. Then it is as new, and can be used.
//  - What all threads of a process share is made anew (PerProcess): the copy may be in the midst of a change.
//  - What a thread of the maker may have been changing at the fork, or waits at, is never destroyed (EndsHere): it may be
//    half changed, and a condition variable waits for its waiters, a thread for its end.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <utility>

namespace vitrine {

/// In which process something was made.
class OwnProcess {
 public:
  /// Whether this is that process, and no fork of it. A system call.
  [[nodiscard]] bool is_here() const { return pid_ == ::getpid(); }
  /// Belongs to this process from now on.
  void renew() { pid_ = ::getpid(); }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = ::getpid();
};

/// One T for all threads of a process; a fork has one of its own. Never destroyed: threads may use it while the process
/// ends. For several threads at once.
template <class T>
class PerProcess {
 public:
  static T& get() {
    Instance* known = current_.load(std::memory_order_acquire);
    if (known != nullptr && known->owner.is_here()) return known->value;
    auto fresh = std::make_unique<Instance>();
    if (!current_.compare_exchange_strong(known, fresh.get())) return known->value;
    return fresh.release()->value;
  }

 private:
  struct Instance {
    OwnProcess owner;
    T value{};
  };
  inline static std::atomic<Instance*> current_{nullptr};
};

/// A T that ends with this only in the process that made it. In a fork, its memory stays as it is.
template <class T>
class EndsHere {
 public:
  template <class... Arguments>
  explicit EndsHere(Arguments&&... arguments) : value_(std::forward<Arguments>(arguments)...) {}
  EndsHere(const EndsHere&) = delete;
  EndsHere& operator=(const EndsHere&) = delete;
  ~EndsHere() {
    if (owner_.is_here()) value_.~T();
  }

  [[nodiscard]] bool is_here() const { return owner_.is_here(); }
  T& operator*() { return value_; }
  const T& operator*() const { return value_; }
  T* operator->() { return &value_; }
  const T* operator->() const { return &value_; }

 private:
  OwnProcess owner_;
  union {
    T value_;
  };
};

}  // namespace vitrine
