// What is in force on a thread, as a stack of holders: scopes and segments (attachments, running
// coroutines). Here is what happens when one of them ends, wherever in the stack it is; the way that
// nearly all take is inlined in <vitrine/labels.hpp>. docs/essays/ownership.md has the rules.
#pragma once

#include "publish/base/block.hpp"
#include "publish/base/thread.hpp"

namespace vitrine::publish {

using labels::detail::Segment;

inline std::uint64_t identity_in_force(const Thread& self) noexcept {
  return reinterpret_cast<const volatile std::uint64_t*>(&self.slot)[identity];
}

/// What is in force, to be put back later. That it is nothing is decided by a branch and not read
/// from memory: otherwise each scope would wait for the one before it.
inline Words outer_words(const Thread& self) noexcept {
  const volatile std::uint64_t* now = labels::detail::words_in_force(self);
  if ((now[0] | now[1]) == 0) return Words{0, 0};
  return labels::detail::in_force(self);
}

/// The same where it is none of our sets: the program may have assigned a handle to the slot.
Words settled_words(Thread& self) noexcept;

/// Whether these words, of the slot, are nothing or all of one of our sets.
inline bool is_settled(const Words& words) noexcept {
  if (words[1] == 0 && words[0] == 0) return true;
  const Block* block = block_of(words);
  if (block == nullptr) return false;
  const Words its = block->links.words;  // which are packed
  return same(its, words);
}

/// `outer_words`, in agreement with each other.
inline Words settled_outer_words(Thread& self) noexcept {
  const Words outer = outer_words(self);
  return is_settled(outer) ? outer : settled_words(self);
}

/// A scope, as it knows itself.
struct EndingScope {
  Words outer;
  Block* block;
  const Segment* segment;
};

/// Removes the labels of a scope that ends from what is in force, and from what this thread puts back
/// later. The caller ends the scope's use of its block afterwards.
void end_scope(Thread& self, const EndingScope& scope) noexcept;

/// Ends coroutines that an exception left without ending them.
void end_abandoned(Thread& self) noexcept;
/// `end_abandoned` where there is one.
inline void end_if_abandoned(Thread& self) noexcept {
  if (labels::detail::is_abandoned(self.segment)) end_abandoned(self);
}

/// Nothing is in force from now on, nor is put back when those that are open end.
void take_down(Thread& self) noexcept;

}  // namespace vitrine::publish
