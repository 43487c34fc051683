// Taking a set out of force: putting back what was, whatever happened in between.
#pragma once

#include "publish/block.hpp"
#include "publish/thread.hpp"

namespace vitrine::publish {

/// `outer`, unless it was one of our sets (`serial` not 0) and its memory holds another by now.
inline Words still_there(Words outer, std::uint64_t serial) noexcept {
  if (serial != 0) {
    const Block* block = block_of(outer);
    if (block == nullptr || block->serial() != serial) return Words{0, 0};
  }
  return outer;
}

/// The holder of `block` ends while another set is in force. If that was made, by way of others,
/// from `block`, the one made right from it is told to put back what `block` would have.
void end_out_of_order(Words in_force, const Block& block, Words outer,
                      std::uint64_t outer_serial) noexcept;

/// Ends the holder (a scope, an attachment) of `block`, which it put in force as `words`.
inline void take_out_of_force(Thread& self, Words words, Words outer, std::uint64_t outer_serial,
                              const Block& block) noexcept {
  const Words now = labels::detail::in_force(self);
  if (__builtin_expect(!same(now, words), 0)) {
    end_out_of_order(now, block, outer, outer_serial);
    return;
  }
  if (__builtin_expect(block.spliced.load(std::memory_order_relaxed), 0)) {
    outer = block.parent == nullptr ? Words{0, 0} : block.parent->words;
    outer_serial = block.parent_serial;
  }
  labels::detail::put_in_force(self, still_there(outer, outer_serial));
}

}  // namespace vitrine::publish
