// What goes into unwinding beside the registers, and what comes out.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "base/memory.hpp"

namespace vitrine::unwind {

/// A copy of the top of a thread's stack: what a sample has of it. The bytes are somebody else's.
struct Stack {
  Address start = 0;  ///< the stack pointer at the sample, or below
  std::span<const std::byte> bytes;

  /// The word at an address, into `word`. False: the copy does not have it.
  bool read(Address address, std::uint64_t& word) const {
    const std::uint64_t at = address - start;
    if (at >= bytes.size() || bytes.size() - at < sizeof word) return false;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    return true;
  }
};

/// Why there are no more frames.
enum class End : std::uint8_t {
  outermost,  ///< the thread's first function: all of the stack is there
  truncated,  ///< the next frame is beyond the copy of the stack
  no_rule,    ///< nothing tells how to leave the function of the last frame
  bad,        ///< the stack makes no sense there: a cycle, or a return to where no code is
  limit,      ///< limits::frames
};

inline constexpr std::uint32_t no_region = ~std::uint32_t{0};

struct Frame {
  Address pc = 0;
  std::uint32_t region = no_region;  ///< position in the CodeMap; no_region: in none
  /// The pc is where a call will return to, so the call is before it. False for the innermost frame,
  /// for one that a signal interrupted, and for the trampoline that a handler returns to.
  bool is_return_address = false;

  /// An address within the instruction that the frame is at: what to look symbols up by.
  [[nodiscard]] Address lookup() const { return pc - (is_return_address ? 1 : 0); }

  bool operator==(const Frame&) const = default;
};

}  // namespace vitrine::unwind
