// Hopper: labels that follow a coroutine or a fiber from thread to thread, by one store each time.
//
// Not an interface: what <vitrine/coroutine.hpp> and <vitrine/fiber.hpp> are made of.
#pragma once

#include <cstdint>
#include <utility>
#include <vitrine/detail/memo.hpp>
#include <vitrine/labels.hpp>

namespace vitrine::labels {
inline namespace VITRINE_DETAIL_ABI_NAMESPACE {
namespace detail {

/// The innermost segment of the thread. A branch decides that there is no segment; reading that
/// from memory would make the next hop wait for this one's store.
VITRINE_DETAIL_ALWAYS_INLINE Segment* around(const Thread& here) noexcept {
  local_fence();
  Segment* segment = here.segment;
  if (__builtin_expect(segment == nullptr, 1)) {
    segment = nullptr;
    __asm__("" : "+r"(segment));
  }
  return segment;
}

/// Whether what is in force is known already, as usual. Comparing does not make the next hop wait
/// for this one's loads.
VITRINE_DETAIL_ALWAYS_INLINE bool shows(const Thread& here, const Words& words) noexcept {
#if defined(__SSE2__)
  typedef int Lanes __attribute__((__vector_size__(16)));
  typedef float Floats __attribute__((__vector_size__(16)));
  const auto equal = reinterpret_cast<Lanes>(words) == reinterpret_cast<Lanes>(here.slot);
  return __builtin_ia32_movmskps(reinterpret_cast<Floats>(equal)) == 15;
#else
  const auto* now = reinterpret_cast<const volatile std::uint64_t*>(&here.slot);
  return ((words[0] ^ now[0]) | (words[1] ^ now[1])) == 0;
#endif
}

/// The coroutine or fiber continues, on this thread. It left before, or starts.
VITRINE_DETAIL_ON_THREAD void enter(Segment& mine) noexcept {
  Thread& here = vitrine_labels_thread;
  Segment* innermost = &mine;
  if (__builtin_expect(!shows(here, mine.outer), 0)) {
    if (mine.is_running()) return;  // there was no memory for one
    mine.outer = in_force(here);
    innermost = std::exchange(mine.innermost, innermost);
  }
  mine.below = around(here);
  local_fence();
  here.segment = innermost;
  put_in_force(here, mine.mine);
}

/// It stops running on this thread. False: it is not to enter when it continues. `handle`: a
/// coroutine's, to know its frame.
template <class Handle>
VITRINE_DETAIL_ON_THREAD bool leave(Segment& mine, const Handle& handle) noexcept {
  Thread& here = vitrine_labels_thread;
  local_fence();
  if (__builtin_expect(here.segment != &mine, 0)) {
    local_fence();  // the handle is in memory: not read before
    return leave_segment(mine, handle.address());
  }
  if (__builtin_expect(!shows(here, mine.mine), 0)) mine.mine = in_force(here);
  here.segment = mine.below;
  local_fence();
  mine.below = &mine;
  put_in_force(here, mine.outer);
  return true;
}

/// A fiber's, where a coroutine has a handle.
struct NoFrame {
  static void* address() noexcept { return nullptr; }
};

/// Owns the labels of a coroutine or a fiber, which are in force while it runs.
class Hopper {
 public:
  explicit Hopper(Set set) noexcept : set_(std::move(set)), segment_(make_segment(set_)) {}
  Hopper(const Hopper&) = delete;
  Hopper& operator=(const Hopper&) = delete;
  ~Hopper() { drop_segment(*segment_); }

  void enter() noexcept { detail::enter(*segment_); }
  void leave() noexcept { static_cast<void>(detail::leave(*segment_, NoFrame{})); }
  [[nodiscard]] bool running() const noexcept { return segment_->is_running(); }
  [[nodiscard]] Segment& segment() const noexcept { return *segment_; }

 private:
  Set set_;  // keeps the initial set alive; the scopes keep their own sets alive
  Segment* segment_;
};

}  // namespace detail
}  // namespace VITRINE_DETAIL_ABI_NAMESPACE
}  // namespace vitrine::labels
