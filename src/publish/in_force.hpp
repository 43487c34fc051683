// Taking a set out of force: putting back what was, whatever happened in between.
#pragma once

#include "publish/block.hpp"
#include "publish/thread.hpp"

namespace vitrine::publish {

inline std::uint64_t identity_in_force(const Thread& self) noexcept {
  return reinterpret_cast<const volatile std::uint64_t*>(&self.slot)[identity];
}

/// By words of eight bytes: both halves are at hand right after the store of the whole.
inline bool is_nothing(const volatile std::uint64_t* words) noexcept {
  return (words[0] | words[1]) == 0;
}
inline bool is_nothing(const Words& words) noexcept {
  return is_nothing(reinterpret_cast<const volatile std::uint64_t*>(&words));
}
inline bool nothing_in_force(const Thread& self) noexcept {
  return is_nothing(reinterpret_cast<const volatile std::uint64_t*>(&self.slot));
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
