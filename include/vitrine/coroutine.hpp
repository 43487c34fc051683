// vitrine/coroutine.hpp: C++20 coroutines keep their labels on every thread that resumes them.
//
//   struct promise_type : vitrine::labels::CoroutineLabels {        // the whole change
//     auto initial_suspend() noexcept { return starting(std::suspend_always{}); }
//     auto final_suspend() noexcept { return hop(FinalAwaiter{}); }
//     …                                             // await_transform comes with the base class
//   };
//
//   Task serve(Request request) {
//     vitrine::labels::Scope scope{tenant, request.tenant};
//     co_await read_body();              // may resume on another thread, with the same labels
//   }
//
// A coroutine starts with the labels of its caller. While it runs, these labels and the scopes it
// opened itself are in force on its thread; when it suspends or ends, the resumer's own are restored.
// A hop is one store of the set's words for any number of labels: no allocation, no reference count.
//
// Every suspension goes through a hop. co_await does so automatically; co_yield does not use
// await_transform, so a generator's yield_value returns `hop(std::suspend_always{})`. A coroutine that
// ends without suspending (std::suspend_never at the end), is destroyed, or is left by an exception
// that its unhandled_exception() rethrows, also ends its labels. In the last case no suspension
// occurs: the resumer's labels are restored at its next use of labels (gcc, clang 16 and later), or
// when the coroutine is destroyed; `leaving()` before the `throw` restores them at once.
//
// For a coroutine with a foreign promise type, define a CarriedLabels object as its first variable,
// and use `co_await carried.hop(…)`.
#pragma once

#include <coroutine>
#include <type_traits>
#include <utility>
#include <vitrine/detail/hopper.hpp>
#include <vitrine/labels.hpp>

namespace vitrine::labels {
inline namespace VITRINE_DETAIL_ABI_NAMESPACE {

namespace detail {

template <class Type>
concept HasMemberCoAwait = requires(Type&& value) {
  std::forward<Type>(value).operator co_await();
};
template <class Type>
concept HasFreeCoAwait = requires(Type&& value) {
  operator co_await(std::forward<Type>(value));
};

/// The awaiter that co_await uses: the result of operator co_await, or the object itself.
template <class Type>
decltype(auto) awaiter_of(Type&& awaitable) {
  if constexpr (HasMemberCoAwait<Type>)
    return std::forward<Type>(awaitable).operator co_await();
  else if constexpr (HasFreeCoAwait<Type>)
    return operator co_await(std::forward<Type>(awaitable));
  else
    return std::forward<Type>(awaitable);
}

/// The stored form of the awaiter: temporaries by value.
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
        if (hopper != nullptr && !hopper->running()) hopper->enter();
      }
    } back{&hopper_};
    hopper_.know(coroutine.address());
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

/// For the initial suspension: the labels then in force belong to the caller.
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
    hopper_.know(coroutine.address());
    return awaiter_.await_suspend(coroutine);
  }
  decltype(auto) await_resume() noexcept(noexcept(std::declval<Awaiter&>().await_resume())) {
    if (!hopper_.running()) hopper_.enter();
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
  /// Wraps any awaitable: the labels stay with the coroutine across it.
  template <class Awaitable>
  [[nodiscard]] auto hop(Awaitable&& awaitable) {
    return detail::HopAwaiter<detail::StoredAwaiter<Awaitable>>(hopper_,
                                                                std::forward<Awaitable>(awaitable));
  }
  template <class Awaitable>
  [[nodiscard]] auto await_transform(Awaitable&& awaitable) {
    // The awaitable lives until the co_await ends: no need to move it.
    return detail::HopAwaiter<decltype(detail::awaiter_of(std::forward<Awaitable>(awaitable)))>(
        hopper_, std::forward<Awaitable>(awaitable));
  }

  /// For an unhandled_exception() that throws: the coroutine stops running here.
  void leaving() noexcept {
    if (hopper_.running()) hopper_.leave();
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
  CarriedLabels() noexcept : hopper_(capture()) {
    if (!hopper_.running()) hopper_.enter();
  }
  CarriedLabels(const CarriedLabels&) = delete;
  CarriedLabels& operator=(const CarriedLabels&) = delete;

  template <class Awaitable>
  [[nodiscard]] auto hop(Awaitable&& awaitable) {
    return detail::HopAwaiter<detail::StoredAwaiter<Awaitable>>(hopper_,
                                                                std::forward<Awaitable>(awaitable));
  }

 private:
  detail::Hopper hopper_;
};

}  // namespace VITRINE_DETAIL_ABI_NAMESPACE
}  // namespace vitrine::labels
