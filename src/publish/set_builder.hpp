// Builds an immutable label set in a thread's arena.
#pragma once

#include <vitrine/labels.hpp>

#include "publish/base/block.hpp"

namespace vitrine::publish {

/// What goes on top of `base`.
struct Change {
  const labels::Label* labels;
  std::size_t count;
  const labels::Trace* trace;  ///< null: as in the base
};

/// Where a set goes, and what keeps it there.
enum class Lives {
  in_page,  ///< its page counts one more use, which ends by `close_use`
  kept,     ///< held once, until `let_go_of_kept` (kept.hpp)
};

struct Built {
  Block* block;  ///< null: `status` has the reason
  labels::Errc status;
};

/// Makes the set of `change` and whatever of `base` (words in force, anyone's set) it does not
/// replace. The set is whole before this returns, and no observer can find it before its words are
/// put in force.
Built build(Arena& arena, Words base, const Change& change, Lives lives) noexcept;

/// The labels that `like` added to the set below it, on top of `base`: a replacement, in a page.
Built rebuild(Arena& arena, Words base, const Block& like, const Replacement& what) noexcept;

}  // namespace vitrine::publish
