// vitrine/boost_asio.hpp: the coroutines and handlers of Boost.Asio keep their labels.
//
//   using vitrine::labels::carrying;
//
//   asio::awaitable<void> serve(tcp::socket socket, std::string tenant_name) {
//     vitrine::labels::Scope scope{tenant, tenant_name};
//     co_await asio::async_read(socket, buffer, asio::use_awaitable);   // may resume elsewhere
//     co_await reply(socket);                                           // called with the labels
//   }
//   asio::co_spawn(carrying(pool), serve(…), asio::detached);
//
// carrying(executor) returns an executor for one chain of work: a coroutine together with the
// awaitables that it awaits, or a composed operation. The chain starts with the labels in force
// where carrying() is called. Its scopes stay with it while it is suspended, and the thread that
// it leaves has its own labels again.
//
// Use one carrying() per chain. Coroutines that run concurrently with their starter need their own:
//
//   auto executor = co_await asio::this_coro::executor;
//   asio::co_spawn(carrying(executor), child(), asio::detached);
//   co_await (carrying(read()) || carrying(timeout()));
//
// A completion that another executor runs (bind_executor) resumes the coroutine without its labels.
//
// Handlers that are not coroutines need only vitrine::labels::bind(handler). With this header such a
// handler keeps its executor, its allocator and its cancellation slot.
//
// For Boost 1.74 and later, and C++20.
#pragma once

// clang-format off
#include <utility>  // first: <boost/asio/awaitable.hpp> of Boost 1.74 uses it
// clang-format on
#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/version.hpp>
#include <concepts>
#include <memory>
#include <type_traits>
#include <typeinfo>
#include <vitrine/coroutine.hpp>
#if defined(BOOST_ASIO_HAS_CO_AWAIT)
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#endif
#if BOOST_ASIO_VERSION >= 102000  // Boost 1.77
#include <boost/asio/associated_cancellation_slot.hpp>
#endif

namespace vitrine::labels {
inline namespace VITRINE_DETAIL_ABI_NAMESPACE {

namespace detail {

/// The labels of a chain, and the thread that runs it.
class Chain {
 public:
  Chain() noexcept = default;
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  /// During its lifetime, the chain runs on this thread. An operation may complete on another thread
  /// before the handler that started it has returned: the chain then continues there afterwards.
  class Turn {
   public:
    explicit Turn(Chain& chain) noexcept : chain_(chain), outermost_(chain.take()) {
      if (outermost_) chain_.hopper_.enter();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      if (!outermost_) return;
      chain_.hopper_.leave();
      chain_.give_back();
    }

   private:
    Chain& chain_;
    bool outermost_;
  };

 private:
  /// False: this thread runs the chain already, e.g. in a handler that dispatches the next one.
  VITRINE_DETAIL_ON_THREAD bool take() noexcept {
    const Thread* const self = &vitrine_labels_thread;
    const Thread* other = nullptr;
    while (!runner_.compare_exchange_weak(other, self, std::memory_order_acquire,
                                          std::memory_order_relaxed)) {
      if (other == self) return false;
      if (other != nullptr) runner_.wait(other, std::memory_order_relaxed);
      other = nullptr;
    }
    return true;
  }
  void give_back() noexcept {
    runner_.store(nullptr, std::memory_order_release);
    runner_.notify_one();
  }

  Hopper hopper_{capture()};
  std::atomic<const Thread*> runner_{nullptr};
};

}  // namespace detail

/// An executor that runs functions with the labels of one chain, on another executor.
/// Copies belong to the same chain. Returned by carrying().
class CarryingExecutor {
  using Inner = boost::asio::any_io_executor;

 public:
  CarryingExecutor(Inner inner, std::shared_ptr<detail::Chain> chain) noexcept
      : inner_(std::move(inner)), chain_(std::move(chain)) {}

  template <class Function>
  void execute(Function&& function) const {
    inner_.execute([chain = chain_,
                    call = std::decay_t<Function>(std::forward<Function>(function))]() mutable {
      const detail::Chain::Turn turn(*chain);
      std::move(call)();
    });
  }

  /// The argument of carrying().
  [[nodiscard]] const Inner& inner() const noexcept { return inner_; }

  // Properties are those of the inner executor.
  template <class Property>
  requires boost::asio::can_query<const Inner&, const Property&>::value decltype(auto) query(
      const Property& property) const {
    return boost::asio::query(inner_, property);
  }
  template <class Property>
  requires boost::asio::can_require<const Inner&, const Property&>::value CarryingExecutor
  require(const Property& property)
  const { return {boost::asio::require(inner_, property), chain_}; }
  template <class Property>
  requires boost::asio::can_prefer<const Inner&, const Property&>::value CarryingExecutor
  prefer(const Property& property)
  const { return {boost::asio::prefer(inner_, property), chain_}; }

  friend bool operator==(const CarryingExecutor& a, const CarryingExecutor& b) noexcept {
    return a.chain_ == b.chain_ && a.inner_ == b.inner_;
  }
  friend bool operator!=(const CarryingExecutor& a, const CarryingExecutor& b) noexcept {
    return !(a == b);
  }

 private:
  Inner inner_;
  std::shared_ptr<detail::Chain> chain_;
};

/// An executor for a new chain of work, on `executor`. A strand stays a strand; if an executor
/// already carries labels, its inner executor is used.
[[nodiscard]] inline CarryingExecutor carrying(boost::asio::any_io_executor executor) {
  auto chain = std::make_shared<detail::Chain>();
  if (executor.target_type() == typeid(CarryingExecutor))  // target() of Boost 1.74 does not check
    return {executor.target<CarryingExecutor>()->inner(), std::move(chain)};
  return {std::move(executor), std::move(chain)};
}
/// The same for an execution context, such as io_context or thread_pool.
template <class Context>
requires std::derived_from<Context, boost::asio::execution_context>
[[nodiscard]] CarryingExecutor carrying(Context& context) {
  return carrying(boost::asio::any_io_executor(context.get_executor()));
}

#if defined(BOOST_ASIO_HAS_CO_AWAIT)
/// `work` as a separate chain, on the executor of the coroutine that awaits it: for the operands
/// of && and ||. It starts with the labels of that coroutine.
template <class Type>
boost::asio::awaitable<Type> carrying(boost::asio::awaitable<Type> work) {
  CarryingExecutor executor = carrying(co_await boost::asio::this_coro::executor);
  co_return co_await boost::asio::co_spawn(executor, std::move(work), boost::asio::use_awaitable);
}
#endif

}  // namespace VITRINE_DETAIL_ABI_NAMESPACE
}  // namespace vitrine::labels

// A bound handler has the associations of the handler itself.
template <class Function, class Default>
struct boost::asio::associated_executor<vitrine::labels::Bound<Function>, Default> {
  using type = typename associated_executor<Function, Default>::type;
  static auto get(const vitrine::labels::Bound<Function>& bound,
                  const Default& other = Default()) noexcept {
    return associated_executor<Function, Default>::get(bound.callable(), other);
  }
};
template <class Function, class Default>
struct boost::asio::associated_allocator<vitrine::labels::Bound<Function>, Default> {
  using type = typename associated_allocator<Function, Default>::type;
  static auto get(const vitrine::labels::Bound<Function>& bound,
                  const Default& other = Default()) noexcept {
    return associated_allocator<Function, Default>::get(bound.callable(), other);
  }
};
#if BOOST_ASIO_VERSION >= 102000
template <class Function, class Default>
struct boost::asio::associated_cancellation_slot<vitrine::labels::Bound<Function>, Default> {
  using type = typename associated_cancellation_slot<Function, Default>::type;
  static auto get(const vitrine::labels::Bound<Function>& bound,
                  const Default& other = Default()) noexcept {
    return associated_cancellation_slot<Function, Default>::get(bound.callable(), other);
  }
};
#endif
