// vitrine/fiber.hpp: fibers (stackful coroutines) keep their labels, on whatever thread they run.
//
//   struct Fiber {
//     ucontext_t context;
//     vitrine::labels::FiberLabels labels;      // in force where the fiber is constructed
//   };
//
//   void Scheduler::run(Fiber& fiber) {         // until it yields to the scheduler
//     fiber.labels.run([&] { swapcontext(&here_, &fiber.context); });
//   }
//
// For programs that switch stacks themselves: ucontext, Boost.Context, assembly. For Boost.Fiber use
// <vitrine/boost_fiber.hpp>.
//
// A program whose fibers move between threads defines VITRINE_FIBERS for all its files. Compilers
// may keep the address of a thread-local variable across a call, and the call that switches stacks
// may return on another thread. With VITRINE_FIBERS every use of such an address is a separate
// function. x86-64 executables work without it; aarch64, and shared libraries, need it.
//
// C++17; does not throw exceptions of its own. A hop is one store for any number of labels.
#pragma once

#include <utility>
#include <vitrine/detail/hopper.hpp>

namespace vitrine::labels {
inline namespace VITRINE_DETAIL_ABI_NAMESPACE {

/// The labels of one fiber. While it runs, these labels and the scopes it opened are in force on its
/// thread; while it is suspended, the thread's own labels are in force.
///
/// At most one thread uses an object at a time, as with the fiber's stack.
class FiberLabels {
 public:
  /// The fiber starts with the labels in force here, e.g. those of the thread that starts it.
  FiberLabels() noexcept : hopper_(capture()) {}
  explicit FiberLabels(Set set) noexcept : hopper_(std::move(set)) {}
  FiberLabels(const FiberLabels&) = delete;
  FiberLabels& operator=(const FiberLabels&) = delete;
  ~FiberLabels() = default;

  /// The fiber continues, on this thread: for the scheduler right before the switch to the fiber, or
  /// for the fiber right after its own switch returns.
  void enter() noexcept { hopper_.enter(); }
  /// The fiber stops, on the thread of enter(): for the scheduler right after the switch back, and
  /// before another thread may run the fiber, or for the fiber right before a switch.
  void leave() noexcept { hopper_.leave(); }
  /// True between enter() and leave().
  [[nodiscard]] bool running() const noexcept { return hopper_.running(); }

  /// enter(), `resume()`, leave(): for a scheduler to whose stack a fiber that yields returns.
  template <class Resume>
  decltype(auto) run(Resume&& resume) {
    const Running running(hopper_);
    return std::forward<Resume>(resume)();
  }

 private:
  class Running {
   public:
    explicit Running(detail::Hopper& hopper) noexcept : hopper_(hopper) { hopper_.enter(); }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running() { hopper_.leave(); }

   private:
    detail::Hopper& hopper_;
  };

  detail::Hopper hopper_;
};

}  // namespace VITRINE_DETAIL_ABI_NAMESPACE
}  // namespace vitrine::labels
