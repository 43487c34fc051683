#include "publish/in_force.hpp"

#if VITRINE_PUBLISH_ABI == 1
#include "publish/handle/handle.hpp"
#endif

#include "publish/set/keys.hpp"
#include "publish/set_builder.hpp"

namespace vitrine::publish {
namespace {

/// A place in the list of segments: the words of a segment are in the slot if it is the innermost
/// one, else they are what the segment above it will put back.
class Place {
 public:
  explicit Place(Thread& self) noexcept : self_(self), segment_(self.segment) {}

  [[nodiscard]] Segment* segment() const noexcept { return segment_; }  ///< null: the thread itself
  [[nodiscard]] const Block* base() const noexcept {
    return segment_ == nullptr ? nullptr : segment_->base;
  }
  [[nodiscard]] Words words() const noexcept {
    return above_ == nullptr ? labels::detail::in_force(self_) : above_->outer;
  }
  void set(Words words) noexcept {
    if (above_ == nullptr)
      labels::detail::put_in_force(self_, words);
    else
      above_->outer = words;
  }
  /// False: this was the last.
  bool next() noexcept {
    if (segment_ == nullptr) return false;
    above_ = segment_;
    segment_ = segment_->below;
    return true;
  }
  bool find(const Segment& segment) noexcept {
    while (segment_ != &segment) {
      if (!next()) return false;
    }
    return true;
  }
  void unlink() noexcept { (above_ == nullptr ? self_.segment : above_->below) = segment_->below; }

  // The sets of the scopes in this segment, from the last one on.
  [[nodiscard]] Block* top() const noexcept {
    Block* block = block_of(words());
    return block == base() ? nullptr : block;
  }
  [[nodiscard]] Block* below(const Block& block) const noexcept {
    Block* parent = block.links.parent();
    if (parent == nullptr || parent == base() || parent->serial() != block.links.below_serial)
      return nullptr;
    return parent;
  }

 private:
  Thread& self_;
  Segment* segment_;
  Segment* above_ = nullptr;
};

bool stands_for(const Block& block, const Segment* here, const EndingScope& scope) noexcept {
  if (!block.links.is_replacement()) return &block == scope.block && here == scope.segment;
  const Replacement& what = replacement(block);
  return what.of == scope.block && what.segment == scope.segment;
}

/// What the sets above `below` (null: all sets of this segment) become on top of `outer`. Without
/// memory for one, labels are missing, never wrong: those above find that they are gone.
Words moved(Arena& arena, const Place& place, const Block* below, Words outer) noexcept {
  for (Block* const top = place.top(); top != below && top != nullptr;) {
    Block* next = top;
    for (Block* under = place.below(*next); under != below; under = place.below(*next))
      next = under;
    const bool again = next->links.is_replacement();
    Replacement what{outer, next, place.segment()};
    if (again) {
      what.of = replacement(*next).of;
      what.segment = replacement(*next).segment;
    }
    const Built built = rebuild(arena, outer, *next, what);
    if (built.block == nullptr) break;
    if (!again && what.segment != nullptr) ++what.segment->replacements;
    outer = built.block->links.words;
    below = next;
  }
  return outer;
}

/// Ends the uses of replacements above `below` that were replaced themselves.
void close_replaced(Arena& arena, const Place& place, Block* top, const Block* below) noexcept {
  while (top != below && top != nullptr) {
    Block* next = place.below(*top);
    if (top->links.is_replacement()) close_use(top->page(), &arena);
    top = next;
  }
}

/// Puts the sets above `below` on top of `outer`.
void move(Thread& self, Place& place, const Block* below, Words outer) noexcept {
  Arena* arena = arena_of(self);
  if (arena == nullptr) return place.set(outer);
  Block* top = place.top();
  place.set(moved(*arena, place, below, outer));
  close_replaced(*arena, place, top, below);
}

inline void end_node(Thread& self, Segment& segment) noexcept {
  if (__builtin_expect(segment.replacements != 0, 0)) {
    segment.over = true;
    return;
  }
  if (Arena* arena = arena_of(self)) give_segment(*arena, segment);
}

/// Takes a segment out of the list; its scopes are the surrounding segment's from then on.
void take_out(Thread& self, Place& place) noexcept {
  Segment& segment = *place.segment();
  if (place.top() != nullptr) {
    move(self, place, nullptr, segment.outer);
  } else {
    const Words now = place.words();
    // A set that other code put in force since then stays until that code removes it.
    if (block_of(now) != nullptr || entries_of(now).size == 0) place.set(segment.outer);
  }
  place.unlink();
  segment.innermost = segment.below = &segment;
}

}  // namespace

Words settled_words(Thread& self) noexcept {
#if VITRINE_PUBLISH_ABI == 1
  return settle(self, true);
#else
  return outer_words(self);
#endif
}

void end_scope(Thread& self, const EndingScope& scope) noexcept {
  end_if_abandoned(self);
#if VITRINE_PUBLISH_ABI == 1
  // What the program assigned to the slot has no record of this scope's.
  if (block_of(labels::detail::in_force(self)) == nullptr) settle(self);
#endif
  Place place(self);
  do {
    for (Block* block = place.top(); block != nullptr; block = place.below(*block)) {
      if (!stands_for(*block, place.segment(), scope)) continue;
      if (!block->links.is_replacement()) {
        move(self, place, block, scope.outer);
      } else {
        const Replacement what = replacement(*block);
        move(self, place, block, what.outer);
        close_use(block->page(), self.arena);
        if (what.segment != nullptr && --what.segment->replacements == 0 && what.segment->over) {
          what.segment->over = false;
          end_node(self, *what.segment);
        }
      }
      return;
    }
  } while (place.next());
}

/// Begins a segment whose labels are those of `base`. Null: no memory.
__attribute__((noinline)) static Segment* begin_segment_slowly(Thread& self,
                                                               const Block& base) noexcept {
  Arena* arena = arena_of(self);
  if (arena == nullptr) return nullptr;
  Segment* segment = &arena->near;
  if (__atomic_load_n(&segment->taken, __ATOMIC_ACQUIRE)) {
    segment = take_segment(*arena);
    if (segment == nullptr) return nullptr;
    segment->innermost = segment;
    segment->frame = nullptr;
    segment->replacements = 0;
    segment->coroutine = segment->over = segment->ended = false;
  }
  segment->taken = true;
  end_if_abandoned(self);
  segment->outer = settled_outer_words(self);
  segment->below = self.segment;
  segment->base = &base;
  self.segment = segment;
  labels::detail::put_in_force(self, base.links.words);
  return segment;
}

/// The same in the usual case, an attachment that is within no other, where no cleanup
/// is pending; else null. It calls no function.
static inline Segment* begin_near_segment(Thread& self, const Block& base) noexcept {
  if (__builtin_expect(!has_arena(self) || self.segment != nullptr, 0)) return nullptr;
  Segment& segment = static_cast<Arena*>(self.arena)->near;
  if (__builtin_expect(__atomic_load_n(&segment.taken, __ATOMIC_ACQUIRE), 0)) return nullptr;
  const Words outer = outer_words(self);
  if (__builtin_expect(!is_settled(outer), 0)) return nullptr;
  segment.taken = true;
  segment.outer = outer;
  segment.below = nullptr;
  segment.base = &base;
  self.segment = &segment;
  labels::detail::put_in_force(self, base.links.words);
  return &segment;
}

__attribute__((noinline)) static void end_segment_slowly(Thread& self, Segment& segment) noexcept {
  end_if_abandoned(self);
  Place place(self);
  if (!place.find(segment)) {
    __atomic_store_n(&segment.ended, true, __ATOMIC_RELEASE);
    return;
  }
  take_out(self, place);
  end_node(self, segment);
}

/// Ends it, wherever it is among the segments of this thread.
static inline void end_segment(Thread& self, Segment& segment) noexcept {
  const std::uint64_t bare =
      segment.base != nullptr ? segment.base->links.words[identity] : std::uint64_t{0};
  if (__builtin_expect(self.segment != &segment || identity_in_force(self) != bare, 0))
    return end_segment_slowly(self, segment);
  labels::detail::put_in_force(self, segment.outer);
  self.segment = segment.below;
  end_node(self, segment);
}

void end_abandoned(Thread& self) noexcept {
  Arena* arena = arena_of(self);
  if (arena == nullptr || arena->settling) return;  // a handler that interrupted this
  arena->settling = true;
  local_fence();
  while (self.segment != nullptr && self.segment->abandoned()) {
    Segment& segment = *self.segment;
    const bool ended = __atomic_load_n(&segment.ended, __ATOMIC_ACQUIRE);
    Place place(self);
    take_out(self, place);
    if (ended) {
      segment.ended = false;
      end_node(self, segment);
    }
  }
  local_fence();
  arena->settling = false;
}

void take_down(Thread& self) noexcept {
  for (Segment* segment = self.segment; segment != nullptr; segment = segment->below) {
    segment->outer = Words{0, 0};
    segment->base = nullptr;
  }
  labels::detail::put_in_force(self, Words{0, 0});
}

}  // namespace vitrine::publish

namespace vitrine::labels {
inline namespace VITRINE_DETAIL_ABI_NAMESPACE {

void Attach::open() noexcept {
  const publish::Block* block = Access::block(set_);
  if (__builtin_expect(block == nullptr, 0)) return open_slowly();
  segment_ = publish::begin_near_segment(publish::thread_once(), *block);
  if (__builtin_expect(segment_ == nullptr, 0)) open_slowly();
}

void Attach::open_slowly() noexcept {
  // The empty set, too, gets a block: whether it is still in force must be plain when this ends.
  if (set_.ok() && Access::block(set_) == nullptr) set_ = Set::make(nullptr, 0, nullptr);
  if (!set_.ok()) return;
  segment_ = publish::begin_segment_slowly(publish::thread_once(), *Access::block(set_));
}

void Attach::close() noexcept {
  publish::end_segment(publish::thread_once(), *segment_);
}

namespace detail {

using publish::Arena;

Segment* make_segment(const Set& set) noexcept {
  Arena* arena = publish::arena_of(publish::thread());
  Segment* segment = arena == nullptr ? nullptr : publish::take_segment(*arena);
  if (segment == nullptr) return &nowhere;
  *segment = {Words{0, 0}, set.words(), segment, segment, Access::block(set), nullptr, 0, true,
              false,       false,       false,   true};
  return segment;
}

void drop_segment(Segment& segment) noexcept {
  if (&segment == &nowhere) return;
  Thread& self = publish::thread();
  if (segment.is_running()) return publish::end_segment(self, segment);
  // Attachments of a coroutine that was suspended ended before it, and were left to it.
  for (Segment* one = segment.innermost;;) {
    Segment* below = one->below;
    one->ended = false;
    publish::end_node(self, *one);
    if (one == &segment) return;
    one = below;
  }
}

bool leave_segment(Segment& segment, void* frame) noexcept {
  Thread& self = publish::thread();
  publish::end_if_abandoned(self);
  bool found = false;
  for (Segment* one = self.segment; one != nullptr && !found; one = one->below)
    found = one == &segment;
  if (!found) {
    // It suspended on another thread without a hop: it is that thread's until it is destroyed.
    if (segment.is_running()) return false;
    segment.know(frame);
    return true;
  }
  // A coroutine within this one suspended without a hop: it does not run any more.
  for (Segment* one = self.segment; one != &segment;) {
    Segment* below = one->below;
    if (one->coroutine) {
      publish::Place place(self);
      place.find(*one);
      publish::take_out(self, place);
    }
    one = below;
  }
  const Words outer = segment.outer;
  segment.innermost = self.segment;
  segment.mine = in_force(self);
  self.segment = segment.below;
  publish::local_fence();
  segment.below = &segment;
  if (segment.innermost != &segment) segment.outer = Segment::unknown;
  put_in_force(self, outer);
  return true;
}

}  // namespace detail
}  // namespace VITRINE_DETAIL_ABI_NAMESPACE
}  // namespace vitrine::labels
