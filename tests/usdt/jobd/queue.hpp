// A bounded queue between threads. A template with probes: each file that uses it compiles its own copy,
// of which the linker keeps one.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "jobd.h"
#include "said.hpp"

namespace jobd {

template <class Item>
class Queue {
 public:
  void put(Item item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    SAY("jobd:job-queued", "%u,%zu", items_.back().id, items_.size());
    JOBD_JOB_QUEUED(items_.back().id, items_.size());
    changed_.notify_one();
  }

  /// None: the queue is closed and empty.
  std::optional<Item> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !items_.empty(); });
    if (items_.empty()) return std::nullopt;
    Item item = std::move(items_.front());
    items_.pop_front();
    SAY("jobd:job-taken", "%u,%zu", item.id, items_.size());
    JOBD_JOB_TAKEN(item.id, items_.size());
    return item;
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool closed_ = false;
};

}  // namespace jobd
