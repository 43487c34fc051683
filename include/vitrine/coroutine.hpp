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

/// The form in which co_await keeps an awaiter, which lives until it ends: by reference. An rvalue
/// without state is kept by value, which takes no memory access.
template <class Awaiter, class Bare = std::remove_reference_t<Awaiter>>
using AwaitedAwaiter =
    std::conditional_t<std::is_rvalue_reference_v<Awaiter> && std::is_empty_v<Bare> &&
                           std::is_trivially_copyable_v<Bare> && std::is_move_constructible_v<Bare>,
                       Bare, Awaiter>;

/// Leaves before the inner awaiter suspends: from then on the coroutine may run elsewhere.
template <class Awaiter>
class HopAwaiter {
 public:
  template <class Awaitable>
  HopAwaiter(Segment& segment, Awaitable&& awaitable)
      : segment_(&segment), awaiter_(awaiter_of(std::forward<Awaitable>(awaitable))) {}

  bool await_ready() noexcept(noexcept(std::declval<Awaiter&>().await_ready())) {
    const bool ready = awaiter_.await_ready();
    if (ready) segment_ = &nowhere;
    return ready;
  }

  template <class Promise>
  auto await_suspend(const std::coroutine_handle<Promise>& coroutine) noexcept(
      noexcept(std::declval<Awaiter&>().await_suspend(coroutine))) {
    // On this stack, not in the frame, which may be gone when the inner call returns.
    struct BackOnThrow {
      Segment* segment;
      ~BackOnThrow() {
        if (segment != nullptr && !segment->is_running()) enter(*segment);
      }
    } back{segment_};
    if (!leave(*segment_, coroutine)) segment_ = &nowhere;
    if constexpr (std::is_void_v<decltype(awaiter_.await_suspend(coroutine))>) {
      awaiter_.await_suspend(coroutine);
      back.segment = nullptr;
    } else {
      auto next = awaiter_.await_suspend(coroutine);
      back.segment = nullptr;
      return next;
    }
  }

  decltype(auto) await_resume() noexcept(noexcept(std::declval<Awaiter&>().await_resume())) {
    enter(*segment_);
    return awaiter_.await_resume();
  }

 private:
  Segment* segment_;  // to enter: `nowhere` if it did not leave
  Awaiter awaiter_;
};

/// For the initial suspension: the labels then in force belong to the caller. It suspends even if the
/// inner awaiter is ready, and continues at once: await_suspend is where the frame is known.
template <class Awaiter>
class StartAwaiter {
 public:
  StartAwaiter(Segment& segment, Awaiter&& awaiter)
      : segment_(segment), awaiter_(std::forward<Awaiter>(awaiter)) {}

  bool await_ready() const noexcept { return false; }
  template <class Promise>
  auto await_suspend(std::coroutine_handle<Promise> coroutine) noexcept(
      noexcept(std::declval<Awaiter&>().await_ready()) && noexcept(
          std::declval<Awaiter&>().await_suspend(coroutine))) {
    using Next = decltype(awaiter_.await_suspend(coroutine));
    segment_.know(coroutine.address());
    const bool ready = awaiter_.await_ready();
    if constexpr (std::is_void_v<Next>) {
      if (!ready) awaiter_.await_suspend(coroutine);
      return !ready;
    } else if constexpr (std::is_same_v<Next, bool>) {
      return !ready && awaiter_.await_suspend(coroutine);
    } else {
      return ready ? std::coroutine_handle<>(coroutine)
                   : std::coroutine_handle<>(awaiter_.await_suspend(coroutine));
    }
  }
  decltype(auto) await_resume() noexcept(noexcept(std::declval<Awaiter&>().await_resume())) {
    enter(segment_);
    return awaiter_.await_resume();
  }

 private:
  Segment& segment_;
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
        hopper_.segment(), std::remove_cvref_t<Awaiter>(std::forward<Awaiter>(awaiter)));
  }
  /// Wraps any awaitable: the labels stay with the coroutine across it.
  template <class Awaitable>
  [[nodiscard]] auto hop(Awaitable&& awaitable) {
    return detail::HopAwaiter<detail::StoredAwaiter<Awaitable>>(hopper_.segment(),
                                                                std::forward<Awaitable>(awaitable));
  }
  template <class Awaitable>
  [[nodiscard]] auto await_transform(Awaitable&& awaitable) {
    using Awaiter = decltype(detail::awaiter_of(std::forward<Awaitable>(awaitable)));
    return detail::HopAwaiter<detail::AwaitedAwaiter<Awaiter>>(hopper_.segment(),
                                                               std::forward<Awaitable>(awaitable));
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
  CarriedLabels() noexcept : hopper_(capture()) { hopper_.enter(); }
  CarriedLabels(const CarriedLabels&) = delete;
  CarriedLabels& operator=(const CarriedLabels&) = delete;

  template <class Awaitable>
  [[nodiscard]] auto hop(Awaitable&& awaitable) {
    return detail::HopAwaiter<detail::StoredAwaiter<Awaitable>>(hopper_.segment(),
                                                                std::forward<Awaitable>(awaitable));
  }

 private:
  detail::Hopper hopper_;
};

}  // namespace VITRINE_DETAIL_ABI_NAMESPACE
}  // namespace vitrine::labels
