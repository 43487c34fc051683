// Coroutines that hop between threads, seen from where an observer looks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <coroutine>
#include <deque>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vitrine/coroutine.hpp>
#include <vitrine/labels.hpp>

#include "publish/own_slot.hpp"

namespace vitrine {
namespace {

using labels::Key;
using labels::Scope;
using test::Labels;

const Key tenant{"tenant"}, route{"route"}, step{"step"}, worker{"worker"};

/// A small executor: threads that resume whatever is posted, each with a label of its own.
class Executor {
 public:
  explicit Executor(int threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this, i] { run(i); });
  }
  ~Executor() { finish(); }

  /// Runs what is posted to its end. Returns how often a thread was left with labels not its own.
  int finish() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    ready_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return strangers_;
  }

  void post(std::coroutine_handle<> coroutine) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(coroutine);
    }
    ready_.notify_one();
  }

  /// `co_await executor.elsewhere()`: suspends; a thread other than this one resumes.
  auto elsewhere() {
    struct Awaiter {
      Executor& executor;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> coroutine) {
        executor.avoid_and_post(std::this_thread::get_id(), coroutine);
      }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this};
  }

 private:
  void avoid_and_post(std::thread::id not_here, std::coroutine_handle<> coroutine) {
    {
      const std::lock_guard lock(mutex_);
      avoid_.push_back({not_here, coroutine});
    }
    ready_.notify_all();
  }

  std::coroutine_handle<> take() {
    if (!queue_.empty()) {
      auto next = queue_.front();
      queue_.pop_front();
      return next;
    }
    for (auto it = avoid_.begin(); it != avoid_.end(); ++it) {
      if (it->first == std::this_thread::get_id()) continue;
      auto next = it->second;
      avoid_.erase(it);
      return next;
    }
    return nullptr;
  }

  void run(int number) {
    Scope scope{worker, std::to_string(number)};
    const Labels own = test::v1_labels();
    std::unique_lock lock(mutex_);
    while (true) {
      auto next = take();
      if (next) {
        lock.unlock();
        next.resume();
        lock.lock();
        if (test::v1_labels() != own) ++strangers_;
      } else if (stopping_) {
        return;
      } else {
        ready_.wait(lock);
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::coroutine_handle<>> queue_;
  std::deque<std::pair<std::thread::id, std::coroutine_handle<>>> avoid_;
  std::vector<std::thread> threads_;
  std::atomic<int> strangers_{0};
  bool stopping_ = false;
};

/// A lazy task whose completion resumes its awaiter by symmetric transfer.
template <class Labelling>
struct BasicTask {
  struct promise_type : Labelling {
    std::coroutine_handle<> continuation = std::noop_coroutine();
    std::exception_ptr error;

    BasicTask get_return_object() {
      return BasicTask{std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    auto initial_suspend() noexcept { return this->starting(std::suspend_always{}); }
    struct Final {
      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(
          std::coroutine_handle<promise_type> self) const noexcept {
        return self.promise().continuation;
      }
      void await_resume() const noexcept {}
    };
    auto final_suspend() noexcept { return this->hop(Final{}); }
    void return_void() {}
    void unhandled_exception() { error = std::current_exception(); }
  };

  explicit BasicTask(std::coroutine_handle<promise_type> c) : coroutine(c) {}
  BasicTask(BasicTask&& other) noexcept : coroutine(std::exchange(other.coroutine, nullptr)) {}
  BasicTask(const BasicTask&) = delete;
  ~BasicTask() {
    if (coroutine) coroutine.destroy();
  }

  auto operator co_await() {
    struct Awaiter {
      std::coroutine_handle<promise_type> coroutine;
      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) {
        coroutine.promise().continuation = awaiting;
        return coroutine;
      }
      void await_resume() {
        if (coroutine.promise().error) std::rethrow_exception(coroutine.promise().error);
      }
    };
    return Awaiter{coroutine};
  }

  std::coroutine_handle<promise_type> coroutine;
};
using Task = BasicTask<labels::CoroutineLabels>;

/// Runs to its end by itself.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

/// Not inlined, nor taken for constant: as below.
__attribute__((noinline)) std::thread::id this_thread_now() {
  __asm__ volatile("" ::: "memory");
  return std::this_thread::get_id();
}

/// Not inlined: clang 14 keeps the address of a thread-local variable across a suspension.
__attribute__((noinline)) void expect_labels(const Labels& expected) {
  EXPECT_EQ(test::v1_labels(), expected);
}

Task hopping(Executor& executor, std::string name) {
  const Labels inherited = test::v1_labels();
  Scope scope{tenant, name};
  Labels mine = inherited;
  mine["tenant"] = name;
  for (int i = 0; i < 20; ++i) {
    expect_labels(mine);
    const auto before = this_thread_now();
    co_await executor.elsewhere();
    EXPECT_NE(this_thread_now(), before);
    expect_labels(mine);
    Scope inner{step, std::to_string(i)};
    co_await executor.elsewhere();
    Labels deeper = mine;
    deeper["step"] = std::to_string(i);
    expect_labels(deeper);
  }
}

Detached drive(Task task, std::promise<void>& done) {
  co_await task;
  done.set_value();
}

TEST(Coroutine, KeepsItsLabelsAcrossThreads) {
  std::vector<std::promise<void>> done(16);
  Executor executor(3);
  {
    Scope scope{route, "/cart"};
    for (std::size_t i = 0; i < done.size(); ++i) {
      drive(hopping(executor, "tenant " + std::to_string(i)), done[i]);
      expect_labels({{"route", "/cart"}});  // suspended: the caller's are back
    }
  }
  expect_labels({});
  for (auto& one : done) one.get_future().wait();
  EXPECT_EQ(executor.finish(), 0) << "a worker was left with labels not its own";
}

Task child(Executor& executor) {
  expect_labels({{"tenant", "acme"}});
  Scope scope{step, "child"};
  co_await executor.elsewhere();
  expect_labels({{"tenant", "acme"}, {"step", "child"}});
}

Task parent(Executor& executor) {
  Scope scope{tenant, "acme"};
  co_await child(executor);
  expect_labels({{"tenant", "acme"}});
  co_await executor.elsewhere();
  expect_labels({{"tenant", "acme"}});
}

TEST(Coroutine, AChildTaskStartsWithItsParentsLabels) {
  std::promise<void> done;
  Executor executor(2);
  drive(parent(executor), done);
  done.get_future().wait();
  EXPECT_EQ(executor.finish(), 0);
}

struct Throwing {
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<>) const { throw std::runtime_error("no"); }
  void await_resume() const {}
};
struct Ready {
  bool await_ready() const { return true; }
  void await_suspend(std::coroutine_handle<>) const {}
  int await_resume() const { return 7; }
};
struct NotAfterAll {
  bool await_ready() const { return false; }
  bool await_suspend(std::coroutine_handle<>) const { return false; }
  void await_resume() const {}
};

Task awkward() {
  Scope scope{tenant, "acme"};
  EXPECT_EQ(co_await Ready{}, 7);
  expect_labels({{"route", "/"}, {"tenant", "acme"}});
  co_await NotAfterAll{};
  expect_labels({{"route", "/"}, {"tenant", "acme"}});
  bool threw = false;
  try {
    co_await Throwing{};
  } catch (const std::runtime_error&) {
    threw = true;
    expect_labels({{"route", "/"}, {"tenant", "acme"}});
  }
  EXPECT_TRUE(threw);
  throw std::logic_error("out");
}

TEST(Coroutine, SuspensionsThatDoNotHappenChangeNothing) {
  Scope scope{route, "/"};
  Task task = [](int) -> Task {
    Labels before = test::v1_labels();
    EXPECT_THROW(co_await awkward(), std::logic_error);
    EXPECT_EQ(test::v1_labels(), before);
  }(0);
  task.coroutine.resume();
  EXPECT_TRUE(task.coroutine.done());
  expect_labels({{"route", "/"}});
}

TEST(Coroutine, DestroyedWhileSuspendedLeavesNothingBehind) {
  Scope scope{route, "/"};
  {
    auto make = []() -> Task {
      Scope inner{tenant, "acme"};
      co_await std::suspend_always{};
    };
    Task task = make();
    task.coroutine.resume();
    expect_labels({{"route", "/"}});
    std::thread([&] { Task last = std::move(task); }).join();
  }
  expect_labels({{"route", "/"}});
}

TEST(Coroutine, LabelsAreThoseOfTheCallNotOfTheFirstResume) {
  auto make = []() -> Task {
    expect_labels({{"tenant", "caller"}});
    co_return;
  };
  std::optional<Task> task;
  {
    Scope scope{tenant, "caller"};
    task.emplace(make());
  }
  Scope other{tenant, "resumer"};
  task->coroutine.resume();
  expect_labels({{"tenant", "resumer"}});
}

Detached with_foreign_promise(Executor& executor, std::promise<void>& done) {
  labels::CarriedLabels carried;
  Scope scope{step, "one"};
  co_await carried.hop(executor.elsewhere());
  expect_labels({{"tenant", "acme"}, {"step", "one"}});
  co_await carried.hop(executor.elsewhere());
  expect_labels({{"tenant", "acme"}, {"step", "one"}});
  done.set_value();
}

TEST(Coroutine, AForeignPromiseCanCarryLabelsToo) {
  std::promise<void> done;
  Executor executor(2);
  {
    Scope scope{tenant, "acme"};
    with_foreign_promise(executor, done);
    expect_labels({{"tenant", "acme"}});
  }
  done.get_future().wait();
  EXPECT_EQ(executor.finish(), 0);
}

}  // namespace
}  // namespace vitrine
