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

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace vitrine {

/// A number that distinguishes this process from all that it was forked from, however. (A process ID does not: the kernel
/// gives that of an ancestor again once that has ended, and another one may have it in its own namespace.) It is
/// in a page that the kernel clears in forks, and ascends from parent to child.
class ProcessNumber {
 public:
  static std::uint64_t get() {
    Page page = page_.load(std::memory_order_acquire);
    if (page == nullptr) page = make_page();
    if (page == none()) return static_cast<std::uint64_t>(::getpid());
    const std::uint64_t number = page->load(std::memory_order_acquire);
    return number != 0 ? number : begin(*page);
  }

 private:
  using Page = std::atomic<std::uint64_t>*;

  /// The first call in this process.
  static std::uint64_t begin(std::atomic<std::uint64_t>& number) {
    const std::uint64_t next = last_.fetch_add(1) + 1;
    std::uint64_t known = 0;
    return number.compare_exchange_strong(known, next) ? next : known;
  }

  static Page make_page() {
    const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const memory =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // qemu-user permits any advice, and heeds none.
    const bool is_cleared = memory != MAP_FAILED && ::madvise(memory, size, -1) != 0 &&
                            ::madvise(memory, size, MADV_WIPEONFORK) == 0;
    Page known = nullptr;
    const Page page = is_cleared ? new (memory) std::atomic<std::uint64_t>(0) : none();
    const bool is_first = page_.compare_exchange_strong(known, page);
    if (memory != MAP_FAILED && !(is_first && is_cleared)) ::munmap(memory, size);
    return is_first ? page : known;
  }
  static Page none() { return &no_page_; }

  inline static std::atomic<std::uint64_t> no_page_{0};
  inline static std::atomic<Page> page_{nullptr};
  inline static std::atomic<std::uint64_t> last_{0};
};

/// In which process something was made.
class OwnProcess {
 public:
  /// Whether this is that process, and no fork of it.
  [[nodiscard]] bool is_here() const { return number_ == ProcessNumber::get(); }
  /// Belongs to this process from now on.
  void renew() { number_ = ProcessNumber::get(); }

 private:
  std::uint64_t number_ = ProcessNumber::get();
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
