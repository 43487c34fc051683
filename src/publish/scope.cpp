// Scope: what happens when one opens and ends. The way that nearly all take is kept free of calls.
#include <vitrine/labels.hpp>

#include "publish/base/thread.hpp"
#include "publish/in_force.hpp"
#include "publish/memo.hpp"
#include "publish/set/block_layout.hpp"

namespace vitrine::labels {

using publish::Arena;
using publish::Block;
using publish::Thread;
using publish::Words;

namespace {

// Functions of their own, so that their callers save no registers for them.

__attribute__((noinline)) Block* append_first(Arena& arena, const Label* labels,
                                              std::size_t count) noexcept {
  return publish::append(arena, nullptr, labels, count);
}

__attribute__((noinline)) Block* append_to(Arena& arena, const Block* parent, const Label* labels,
                                           std::size_t count) noexcept {
  return publish::append(arena, parent, labels, count);
}

}  // namespace

Scope::Entered Scope::failed(Errc why) noexcept {
  return {Words{static_cast<std::uint64_t>(why), 0}, nullptr, nullptr};
}

Scope::Entered Scope::open(const Label* labels, std::size_t count, const Trace* trace) noexcept {
  Thread& self = publish::thread();
  detail::MemoKey memo_key;
  if (__builtin_expect(trace != nullptr, 0) || __builtin_expect(!detail::has_arena(self), 0) ||
      detail::is_abandoned(self.segment) || !publish::make_key(memo_key, self, labels, count))
    return open_unasked(labels, count, trace);

  const auto& arena = *static_cast<const Arena*>(self.arena);
  const detail::Recall::Found known = arena.memo[memo_key.entry()].find(memo_key);
  if (__builtin_expect(known.block != nullptr, 1)) {
    if (__builtin_expect(publish::has_labels(*known.block, labels, count), 1))
      return enter(self, known.outer, known.block);
    detail::local_increment(known.block->links.page->closed);
    return open_unlike(labels, count);
  }
  const detail::MemoKey missed = memo_key;  // so that `memo_key` stays in registers
  return open_unknown(missed, labels, count);
}

/// After a lookup that found other labels. The key is made again: keeping it for this case costs the
/// others registers.
__attribute__((noinline)) Scope::Entered Scope::open_unlike(const Label* labels,
                                                            std::size_t count) noexcept {
  detail::MemoKey memo_key;
  if (!publish::make_key(memo_key, publish::thread(), labels, count))
    return open_unasked(labels, count, nullptr);
  return open_unknown(memo_key, labels, count);
}

__attribute__((noinline)) Scope::Entered Scope::open_unknown(const detail::MemoKey& memo_key,
                                                             const Label* labels,
                                                             std::size_t count) noexcept {
  Thread& self = publish::thread();
  auto& arena = *static_cast<Arena*>(self.arena);
  const Words outer = publish::outer_words(self);
  const Block* parent = publish::block_of(outer);
  if (parent == nullptr && memo_key.below() != 0) return open_unasked(labels, count, nullptr);
  Block* block = parent == nullptr ? append_first(arena, labels, count)
                                   : append_to(arena, parent, labels, count);
  bool lasting = true;
  if (block == nullptr) {
    lasting = publish::are_tags_settled(labels, count);
    const publish::Built built =
        publish::build(arena, outer, {labels, count, nullptr}, publish::Lives::in_page);
    if (built.block == nullptr) return failed(built.status);
    block = built.block;
  }
  // Another writer's empty set may fill; and only blocks of small pages are remembered.
  if (lasting && (parent != nullptr || memo_key.below() == 0) &&
      block->page().unit_shift == publish::small_unit_shift)
    publish::remember(arena, memo_key, block);
  return enter(self, outer, block);
}

Scope::Entered Scope::open_unasked(const Label* labels, std::size_t count,
                                   const Trace* trace) noexcept {
  Thread& self = publish::thread();
  publish::end_if_abandoned(self);
  Arena* arena = publish::arena_of(self);
  if (arena == nullptr)
    return failed(publish::exiting(self) ? Errc::thread_exiting : Errc::out_of_memory);
  const Words outer = publish::settled_outer_words(self);
  const publish::Built built =
      publish::build(*arena, outer, {labels, count, trace}, publish::Lives::in_page);
  if (built.block == nullptr) return failed(built.status);
  return enter(self, outer, built.block);
}

__attribute__((noinline)) Scope::Entered Scope::open_other(Key key,
                                                           std::string_view value) noexcept {
  const Label label(key, value);
  return open(&label, 1, nullptr);
}

/// A scope that hides a value below it, which is made as several labels are. What was noted of it there is
/// noted under the key of the one label, too: from then on it is found without a call.
__attribute__((noinline)) Scope::Entered Scope::open_hiding(const detail::MemoKey& memo_key,
                                                            Key key,
                                                            std::string_view value) noexcept {
  const Label label(key, value);
  detail::MemoKey as_several;
  const bool has_key = publish::make_key(as_several, publish::thread(), &label, 1);
  const Entered entered = open(&label, 1, nullptr);
  if (!has_key || entered.block == nullptr) return entered;
  auto& arena = *static_cast<Arena*>(publish::thread().arena);
  const detail::Recall& noted = arena.memo[as_several.entry()];
  if (noted.what == as_several.what && noted.block == entered.block &&
      noted.below == as_several.below() && noted.below == memo_key.below() &&
      noted.ends.head == as_several.ends.head && noted.ends.tail == as_several.ends.tail &&
      noted.stamp == publish::small_page_of(entered.block).first_serial)
    publish::remember(arena, memo_key, entered.block);
  return entered;
}

Scope::Entered Scope::open_new(Key key, std::string_view value) noexcept {
  Thread& self = publish::thread();
  publish::end_if_abandoned(self);
  if (!detail::has_arena(self) || !key.ok() || value.size() > detail::Ends::all)
    return open_other(key, value);
  const volatile std::uint64_t* now = detail::words_in_force(self);
  const detail::MemoKey memo_key{{now[0], now[1]},
                                 detail::MemoKey::one(Access::data(key), value.size()),
                                 detail::Ends::of(value.data(), value.size())};
  auto& arena = *static_cast<Arena*>(self.arena);
  Words outer{0, 0};
  Block* block = nullptr;
  if (__builtin_expect(memo_key.below() == 0, 1)) {
    const Label label(key, value);
    block = publish::append(arena, nullptr, &label, 1);
  } else {
    outer = detail::in_force(self);
    if (const Block* parent = publish::block_of(outer)) {
      const Label label(key, value);
      block = append_to(arena, parent, &label, 1);
    }
  }
  if (block == nullptr) return open_hiding(memo_key, key, value);
  publish::remember(arena, memo_key, block);
  return enter(self, outer, block);
}

void Scope::close_unusual(Entered in) noexcept {
  Thread& self = publish::thread();
  publish::end_scope(self, {in.outer, in.block, in.segment});
  publish::close_use(in.block->page(), self.arena);
}

}  // namespace vitrine::labels
