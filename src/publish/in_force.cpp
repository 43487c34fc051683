#include "publish/in_force.hpp"

namespace vitrine::publish {
namespace {

/// The holder of `block` ends while another set is in force. If that was made, by way of others,
/// from `block`, the one made right from it is told to put back what `block` would have.
void end_out_of_order(Block* above, const Block& block, const Words& outer,
                      std::uint64_t outer_serial) noexcept {
  constexpr int deepest = 256;
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

}  // namespace

void take_out_of_force(Thread& self, const Words& outer, std::uint64_t outer_serial,
                       const Block& block) noexcept {
  const std::uint64_t now = identity_in_force(self);
  if (now != identity_of(block.words)) {
    end_out_of_order(block_of(now), block, outer, outer_serial);
  } else if (block.spliced.load(std::memory_order_relaxed)) {
    const Words below = block.parent == nullptr ? Words{0, 0} : block.parent->words;
    labels::detail::put_in_force(self, still_there(below, block.parent_serial));
  } else {
    labels::detail::put_in_force(self, still_there(outer, outer_serial));
  }
}

}  // namespace vitrine::publish
