// Task: a coroutine that another one awaits. Job: one that nobody awaits. Both carry their labels.
#pragma once

#include <coroutine>
#include <exception>
#include <utility>
#include <vitrine/coroutine.hpp>

namespace demo {

class [[nodiscard]] Task {
 public:
  struct promise_type : vitrine::labels::CoroutineLabels {
    struct ResumeAwaiting {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> done) noexcept {
        return done.promise().awaiting;
      }
      void await_resume() noexcept {}
    };

    Task get_return_object() { return Task(Handle::from_promise(*this)); }
    auto initial_suspend() { return starting(std::suspend_always{}); }
    auto final_suspend() noexcept { return hop(ResumeAwaiting{}); }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }

    std::coroutine_handle<> awaiting;
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) {
    handle_.promise().awaiting = awaiting;
    return handle_;
  }
  void await_resume() const {}

 private:
  using Handle = std::coroutine_handle<promise_type>;
  explicit Task(Handle handle) : handle_(handle) {}

  Handle handle_;
};

struct Job {
  struct promise_type : vitrine::labels::CoroutineLabels {
    struct DestroyItself {
      bool await_ready() noexcept { return false; }
      void await_suspend(std::coroutine_handle<> done) noexcept { done.destroy(); }
      void await_resume() noexcept {}
    };

    Job get_return_object() { return {}; }
    auto initial_suspend() { return starting(std::suspend_never{}); }
    auto final_suspend() noexcept { return hop(DestroyItself{}); }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

}  // namespace demo
