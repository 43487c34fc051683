// Memoised transitions: entering a scope that was entered from the same set before takes the set
// made then, while it is still in the arena.
#pragma once

#include "publish/set_builder.hpp"

namespace vitrine::publish {

/// `build`, or the same set made earlier by this thread.
Built build_or_recall(Arena& arena, Words base, const Change& change) noexcept;

}  // namespace vitrine::publish
