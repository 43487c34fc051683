// What runs the jobs of programs_test beside its main thread: coroutines, and another thread.
#pragma once

#include <condition_variable>
#include <coroutine>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vitrine/coroutine.hpp>

namespace vitrine::test {

/// How a coroutine comes to its end.
enum class End { suspended, gone, thrown };
struct Left {};  ///< the exception that leaves it

/// The coroutine stays suspended at its end, or its frame goes without a suspension.
struct AtEnd {
  bool stays;
  bool await_ready() const noexcept { return !stays; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  void await_resume() const noexcept {}
};

/// A coroutine: each resumption runs one job within it.
struct Worker {
  struct promise_type : labels::CoroutineLabels {
    std::function<void()>* job = nullptr;
    bool over = false;
    End end = End::suspended;
    Worker get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    auto initial_suspend() noexcept { return starting(std::suspend_always{}); }
    auto final_suspend() noexcept { return hop(AtEnd{end != End::gone}); }
    void return_void() {}
#if defined(__cpp_exceptions)
    void unhandled_exception() {
      throw;
    }
#else
    void unhandled_exception() {
      std::terminate();
    }
#endif
  };
  std::coroutine_handle<promise_type> handle;
};

struct Promise {
  std::coroutine_handle<Worker::promise_type> handle;
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<Worker::promise_type> coroutine) noexcept {
    handle = coroutine;
    return false;
  }
  Worker::promise_type& await_resume() const noexcept { return handle.promise(); }
};

inline Worker work() {
  Worker::promise_type& self = co_await Promise{};
  while (!self.over) {
    (*self.job)();
    co_await std::suspend_always{};
  }
#if defined(__cpp_exceptions)
  if (self.end == End::thrown) throw Left{};
#endif
}

/// Resumes a coroutine that comes to its end now. Its frame is still there unless it is `gone`.
inline void run_to_end(std::coroutine_handle<Worker::promise_type> handle, End end) {
  handle.promise().end = end;
#if defined(__cpp_exceptions)
  try {
    handle.resume();
  } catch (const Left&) {
  }
#else
  handle.resume();
#endif
}

/// The other thread: runs what it is given, and waits.
class Other {
 public:
  Other() : thread_([this] { loop(); }) {}
  ~Other() {
    run({});
    thread_.join();
  }
  void run(std::function<void()> job) {
    std::unique_lock lock(mutex_);
    job_ = std::move(job);
    has_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !has_; });
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return has_; });
      const bool last = !job_;
      if (!last) job_();
      has_ = false;
      changed_.notify_all();
      if (last) return;
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;
  bool has_ = false;
  std::thread thread_;
};

}  // namespace vitrine::test
