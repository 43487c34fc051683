#include "publish/in_force.hpp"

namespace vitrine::publish {

void end_out_of_order(Words in_force, const Block& block, Words outer,
                      std::uint64_t outer_serial) noexcept {
  constexpr int deepest = 256;
  Block* above = block_of(in_force);
  for (int depth = 0; above != nullptr && depth < deepest; ++depth) {
    Block* below = above->parent;
    if (below == nullptr || below->serial() != above->parent_serial) return;
    if (below == &block) {
      above->parent = block_of(outer);
      above->parent_serial = above->parent == nullptr ? 0 : outer_serial;
      above->spliced.store(true, std::memory_order_relaxed);
      return;
    }
    above = below;
  }
}

}  // namespace vitrine::publish
