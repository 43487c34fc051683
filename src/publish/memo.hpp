// Memoised transitions: entering a scope that was entered from the same set before takes the set
// made then, while it is still in the arena. What is looked up, and where, is in
// <vitrine/detail/memo.hpp>: scopes of one label do it in their caller.
#pragma once

#include "publish/block.hpp"
#include "publish/keys.hpp"
#include "publish/local_atomic.hpp"
#include "publish/set_builder.hpp"
#include "publish/thread.hpp"

namespace vitrine::publish {

using labels::detail::Ends;
using labels::detail::Question;
using labels::detail::Recall;

/// Says what to look the set of `change` up by. False: not worth it, or not valid.
bool ask(Question& question, const Thread& thread, const Change& change) noexcept;

/// The set that `entry` has for the question about several labels or a long one.
Recall::Answer recall(const Recall& entry, const Question& question, const Change& change) noexcept;

/// Notes that `block`, made on top of `outer`, answers the question.
inline void remember(Arena& arena, const Words& outer, const Question& question,
                     Block* block) noexcept {
  // On top of nothing or of an immutable set only. And blocks of small pages only.
  if (block->links.below == 0 && (outer[0] | outer[1]) != 0) return;
  if (block->page().unit_shift != small_unit_shift) return;
  Recall& entry = arena.memo[question.entry()];
  if (entry.what == Recall::writing) return;  // this is a handler, and interrupted `remember`
  entry.what = Recall::writing;
  local_fence();
  entry.below = question.below();
  entry.ends.head = question.ends.head;  // each by itself, as they were written just now
  entry.ends.tail = question.ends.tail;
  entry.block = block;
  entry.stamp = block->page().first_serial;
  local_fence();
  entry.what = question.what;
}

}  // namespace vitrine::publish
