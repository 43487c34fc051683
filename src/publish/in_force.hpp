// Taking a set out of force: putting back what was, whatever happened in between.
#pragma once

#include "publish/block.hpp"
#include "publish/thread.hpp"

namespace vitrine::publish {

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

/// `outer_words`, in agreement with each other.
inline Words settled_outer_words(Thread& self) noexcept {
  const Words outer = outer_words(self);
  if (outer[1] == 0 && outer[0] == 0) return outer;
  const Block* block = block_of(outer);
  return block != nullptr && same(block->links.words, outer) ? outer : settled_words(self);
}

/// `outer`, unless it was one of our sets (`serial` not 0) and its memory holds another by now.
inline Words still_there(const Words& outer, std::uint64_t serial) noexcept {
  if (serial != 0) {
    const Block* block = block_of(outer);
    if (block == nullptr || block->serial() != serial) return Words{0, 0};
  }
  return outer;
}

/// Ends the holder (a scope, an attachment) of `block`.
void take_out_of_force(Thread& self, const Words& outer, std::uint64_t outer_serial,
                       const Block& block) noexcept;

}  // namespace vitrine::publish
