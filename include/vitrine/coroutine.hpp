// vitrine/coroutine.hpp: C++20 coroutines keep their labels, wherever they are resumed.
//
//   struct promise_type : vitrine::labels::CoroutineLabels {        // the whole change
//     auto initial_suspend() noexcept { return starting(std::suspend_always{}); }
//     auto final_suspend() noexcept { return hop(FinalAwaiter{}); }
//     …                                             // await_transform comes with the base class
//   };
//
//   Task serve(Request request) {
//     vitrine::labels::Scope scope{tenant, request.tenant};
//     co_await read_body();              // suspends here, goes on there: the labels are the same
//   }
//
// A coroutine starts with the labels of whoever called it. While it runs they, and the scopes it
// opened itself, are in force on its thread; when it suspends, the resumer's own are back. A hop is
// one store of the set's words, whatever the number of labels: no allocation, no reference count.
//
// For a coroutine whose promise type is not yours: a CarriedLabels object as its first variable,
// and `co_await carried.hop(…)`.
#pragma once

#include <coroutine>
#include <type_traits>
#include <utility>
#include <vitrine/labels.hpp>

namespace vitrine::labels {

namespace detail {

/// The labels of a coroutine and those of whoever runs it at the moment.
class Hopper {
 public:
  explicit Hopper(Set set) noexcept : set_(std::move(set)), mine_(set_.words()) {}
  Hopper(const Hopper&) = delete;
  Hopper& operator=(const Hopper&) = delete;

  /// The coroutine goes on, on this thread.
  VITRINE_ON_THREAD void enter() noexcept {
    Thread& here = vitrine_labels_thread;
    remember(resumer_, here);
    put_in_force(here, mine_);
    running_ = true;
  }
  /// The coroutine stops running on this thread.
  VITRINE_ON_THREAD void leave() noexcept {
    Thread& here = vitrine_labels_thread;
    remember(mine_, here);
    running_ = false;
    put_in_force(here, resumer_);
  }
  bool running() const noexcept { return running_; }

 private:
  /// Mostly it is known already. Comparing does not make the next hop wait for this one's loads.
  static void remember(Words& words, const Thread& here) noexcept {
    const auto* now = reinterpret_cast<const volatile std::uint64_t*>(&here.slot);
    const std::uint64_t first = now[0], second = now[1];
    if (__builtin_expect(((words[0] ^ first) | (words[1] ^ second)) != 0, 0))
      words = Words{first, second};
  }

  Set set_;  // keeps alive what it started with; its scopes keep alive what they made
  Words mine_;
  Words resumer_{0, 0};
  bool running_ = false;
};

template <class T>
concept HasMemberCoAwait = requires(T&& value) {
  std::forward<T>(value).operator co_await();
};
template <class T>
concept HasFreeCoAwait = requires(T&& value) {
  operator co_await(std::forward<T>(value));
};

/// What co_await would ask: the result of operator co_await, or the object itself.
template <class T>
decltype(auto) awaiter_of(T&& awaitable) {
  if constexpr (HasMemberCoAwait<T>)
    return std::forward<T>(awaitable).operator co_await();
  else if constexpr (HasFreeCoAwait<T>)
    return operator co_await(std::forward<T>(awaitable));
  else
    return std::forward<T>(awaitable);
}

/// The awaiter as something to keep: temporaries by value.
template <class Awaitable>
using StoredAwaiter =
    std::conditional_t<std::is_rvalue_reference_v<decltype(awaiter_of(std::declval<Awaitable>()))>,
                       std::remove_reference_t<decltype(awaiter_of(std::declval<Awaitable>()))>,
                       decltype(awaiter_of(std::declval<Awaitable>()))>;

/// Leaves before the inner awaiter suspends: from then on the coroutine may run elsewhere.
template <class Awaiter>
class HopAwaiter {
 public:
  template <class Awaitable>
  HopAwaiter(Hopper& hopper, Awaitable&& awaitable)
      : hopper_(hopper), awaiter_(awaiter_of(std::forward<Awaitable>(awaitable))) {}

  bool await_ready() noexcept(noexcept(std::declval<Awaiter&>().await_ready())) {
    return awaiter_.await_ready();
  }

  template <class Promise>
  auto await_suspend(std::coroutine_handle<Promise> coroutine) noexcept(
      noexcept(std::declval<Awaiter&>().await_suspend(coroutine))) {
    // On this stack, not in the frame, which may be gone when the inner call returns.
    struct BackOnThrow {
      Hopper* hopper;
      ~BackOnThrow() {
        if (hopper != nullptr) hopper->enter();
      }
    } back{&hopper_};
    hopper_.leave();
    if constexpr (std::is_void_v<decltype(awaiter_.await_suspend(coroutine))>) {
      awaiter_.await_suspend(coroutine);
      back.hopper = nullptr;
    } else {
      auto next = awaiter_.await_suspend(coroutine);
      back.hopper = nullptr;
      return next;
    }
  }

  decltype(auto) await_resume() noexcept(noexcept(std::declval<Awaiter&>().await_resume())) {
    if (!hopper_.running()) hopper_.enter();
    return awaiter_.await_resume();
  }

 private:
  Hopper& hopper_;
  Awaiter awaiter_;
};

/// For the initial suspension: whatever is in force then belongs to the caller.
template <class Awaiter>
class StartAwaiter {
 public:
  StartAwaiter(Hopper& hopper, Awaiter&& awaiter)
      : hopper_(hopper), awaiter_(std::forward<Awaiter>(awaiter)) {}

  bool await_ready() noexcept(noexcept(std::declval<Awaiter&>().await_ready())) {
    return awaiter_.await_ready();
  }
  template <class Promise>
  decltype(auto) await_suspend(std::coroutine_handle<Promise> coroutine) noexcept(
      noexcept(std::declval<Awaiter&>().await_suspend(coroutine))) {
    return awaiter_.await_suspend(coroutine);
  }
  decltype(auto) await_resume() noexcept(noexcept(std::declval<Awaiter&>().await_resume())) {
    hopper_.enter();
    return awaiter_.await_resume();
  }

 private:
  Hopper& hopper_;
  Awaiter awaiter_;
};

}  // namespace detail

/// Base class of a promise type. Its coroutines carry their labels.
///
/// `initial_suspend` must return `starting(…)` and `final_suspend` `hop(…)`. A promise type with an
/// await_transform of its own returns `hop(…)` from it.
class CoroutineLabels {
 public:
  CoroutineLabels() noexcept : hopper_(capture()) {}

  /// Wraps the initial suspension's awaiter.
  template <class Awaiter>
  [[nodiscard]] auto starting(Awaiter&& awaiter) {
    return detail::StartAwaiter<std::remove_cvref_t<Awaiter>>(
        hopper_, std::remove_cvref_t<Awaiter>(std::forward<Awaiter>(awaiter)));
  }
  /// Wraps anything that can be awaited: the labels stay with the coroutine across it.
  template <class Awaitable>
  [[nodiscard]] auto hop(Awaitable&& awaitable) {
    return detail::HopAwaiter<detail::StoredAwaiter<Awaitable>>(hopper_,
                                                                std::forward<Awaitable>(awaitable));
  }
  template <class Awaitable>
  [[nodiscard]] auto await_transform(Awaitable&& awaitable) {
    // What is awaited lives until the co_await is over: no need to move it.
    return detail::HopAwaiter<decltype(detail::awaiter_of(std::forward<Awaitable>(awaitable)))>(
        hopper_, std::forward<Awaitable>(awaitable));
  }

 protected:
  ~CoroutineLabels() = default;

 private:
  detail::Hopper hopper_;
};

/// The same for a coroutine with a foreign promise type: its first variable, and every suspension
/// written `co_await carried.hop(…)`.
class CarriedLabels {
 public:
  CarriedLabels() noexcept : hopper_(capture()) { hopper_.enter(); }
  CarriedLabels(const CarriedLabels&) = delete;
  CarriedLabels& operator=(const CarriedLabels&) = delete;
  ~CarriedLabels() {
    if (hopper_.running()) hopper_.leave();  // else: destroyed while suspended
  }

  template <class Awaitable>
  [[nodiscard]] auto hop(Awaitable&& awaitable) {
    return detail::HopAwaiter<detail::StoredAwaiter<Awaitable>>(hopper_,
                                                                std::forward<Awaitable>(awaitable));
  }

 private:
  detail::Hopper hopper_;
};

}  // namespace vitrine::labels
