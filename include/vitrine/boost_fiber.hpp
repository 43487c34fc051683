// vitrine/boost_fiber.hpp: the fibers of Boost.Fiber keep their labels.
//
//   namespace algo = boost::fibers::algo;
//   boost::fibers::use_scheduling_algorithm<vitrine::labels::LabelledFibers<algo::work_stealing>>(4);
//
// on each thread that runs fibers, with the program's own scheduling algorithm and arguments. A fiber
// starts with the labels of the fiber that starts it; its scopes stay with it when it blocks, and
// when another thread continues it. A thread that has no fiber to run has no labels.
//
// Define VITRINE_FIBERS for all files of a program whose fibers move between threads: see
// <vitrine/fiber.hpp>. For Boost 1.74 and later, and C++17.
#pragma once

#include <boost/fiber/algo/algorithm.hpp>
#include <boost/fiber/context.hpp>
#include <boost/fiber/properties.hpp>
#include <boost/fiber/type.hpp>
#include <type_traits>
#include <utility>
#include <vitrine/detail/hopper.hpp>

namespace vitrine::labels {
inline namespace VITRINE_DETAIL_ABI_NAMESPACE {

namespace detail {

/// The labels of a fiber, as its property.
class FiberProperties : public boost::fibers::fiber_properties {
 public:
  explicit FiberProperties(boost::fibers::context* fiber) noexcept
      : boost::fibers::fiber_properties(fiber) {}

  Hopper hopper{capture()};
};

}  // namespace detail

/// A scheduling algorithm (round_robin, shared_work, work_stealing, one of your own) whose fibers
/// carry their labels. It keeps them in the fiber's properties, so `Algorithm` can have none.
///
/// Switches pass pick_next(), on the thread of the fiber that stops, and before another thread can
/// run that fiber. The one exception is a fiber launched with launch::dispatch: its launcher arrives
/// in awakened() before the new fiber runs any code of its own.
///
/// The main fiber of a thread uses the thread's labels unchanged, and other fibers hop on top of
/// these. So does the dispatcher, which runs when no other fiber does, with an empty set.
template <class Algorithm>
class LabelledFibers : public Algorithm {
  static_assert(!std::is_base_of_v<boost::fibers::algo::algorithm_with_properties_base, Algorithm>,
                "LabelledFibers needs the fiber's properties for itself");
  using Context = boost::fibers::context;
  using Type = boost::fibers::type;

 public:
  /// Takes the arguments of `Algorithm`.
  template <class... Args>
  explicit LabelledFibers(Args&&... args) : Algorithm(std::forward<Args>(args)...) {}
  LabelledFibers(const LabelledFibers&) = delete;
  LabelledFibers& operator=(const LabelledFibers&) = delete;
  /// The dispatcher runs last, and work_stealing destroys its parts at the end of the process.
  ~LabelledFibers() override {
    if (on_thread_ == &idle_ && thread_ == this_thread()) idle_.leave();
  }

  void awakened(Context* fiber) noexcept override {
    switch_to(Context::active());
    static_cast<void>(hopper_of(fiber));  // a new fiber: before another thread can take it
    Algorithm::awakened(fiber);
  }

  Context* pick_next() noexcept override {
    Context* next = Algorithm::pick_next();
    if (next != nullptr) switch_to(next);
    return next;
  }

 private:
  detail::Hopper* hopper_of(Context* fiber) noexcept {
    if (fiber->is_context(Type::main_context)) return nullptr;
    if (fiber->is_context(Type::dispatcher_context)) return &idle_;
    auto* properties = static_cast<detail::FiberProperties*>(fiber->get_properties());
    if (properties == nullptr) {
      properties = new detail::FiberProperties(fiber);  // the fiber's context deletes it
      fiber->set_properties(properties);
    }
    return &properties->hopper;
  }

  void switch_to(Context* next) noexcept {
    detail::Hopper* const to = hopper_of(next);
    if (to == on_thread_) return;
    if (on_thread_ != nullptr) on_thread_->leave();
    if (to != nullptr) to->enter();
    on_thread_ = to;
    thread_ = this_thread();
  }

  static VITRINE_DETAIL_ON_THREAD const void* this_thread() noexcept {
    return &detail::vitrine_labels_thread;
  }

  const void* thread_ = nullptr;         // the one that runs this scheduler
  detail::Hopper* on_thread_ = nullptr;  // whose labels the thread shows; null: its own
  detail::Hopper idle_{Set()};
};

}  // namespace VITRINE_DETAIL_ABI_NAMESPACE
}  // namespace vitrine::labels
