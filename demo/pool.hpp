// Pool: threads that resume coroutines, at once or after a while, each on whichever thread is free.
#pragma once

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <coroutine>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace demo {

class Pool {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Pool(int threads) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this] { run(); });
      pthread_setname_np(threads_.back().native_handle(), ("worker-" + std::to_string(i)).c_str());
    }
  }

  /// Ends when every coroutine handed to it has been resumed.
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  /// `co_await pool.after(5ms)`: goes on then, on one of the threads, leaving this one to others.
  auto after(Clock::duration delay) {
    struct Awaiter {
      Pool& pool;
      Clock::duration delay;
      bool await_ready() const { return false; }
      void await_suspend(std::coroutine_handle<> coroutine) { pool.add(delay, coroutine); }
      void await_resume() const {}
    };
    return Awaiter{*this, delay};
  }

 private:
  void add(Clock::duration delay, std::coroutine_handle<> coroutine) {
    {
      const std::lock_guard lock(mutex_);
      due_.emplace(Clock::now() + delay, coroutine);
    }
    changed_.notify_one();
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!due_.empty() || !stopping_) {
      if (due_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const auto [when, coroutine] = *due_.begin();
      if (when > Clock::now()) {
        changed_.wait_until(lock, when);
        continue;
      }
      due_.erase(due_.begin());
      lock.unlock();
      coroutine.resume();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Clock::time_point, std::coroutine_handle<>> due_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace demo
