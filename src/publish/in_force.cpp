#include "publish/in_force.hpp"

namespace vitrine::publish {
namespace {

/// The holder of `block` ends while another set is in force. If that was made, by way of others,
/// from `block`, the one made right from it is told to put back what `block` would have.
void end_out_of_order(Block* above, const Block& block, const Words& outer,
                      std::uint64_t outer_serial) noexcept {
  constexpr int deepest = 256;
  for (int depth = 0; above != nullptr && depth < deepest; ++depth) {
    Block* below = above->links.parent;
    if (below == nullptr || below->serial() != above->links.parent_serial) return;
    if (below == &block) {
      above->links.parent = block_of(outer);
      above->links.parent_serial = above->links.parent == nullptr ? 0 : outer_serial;
      __atomic_store_n(&above->links.spliced, true, __ATOMIC_RELAXED);
      return;
    }
    above = below;
  }
}

}  // namespace

void take_out_of_force(Thread& self, const Words& outer, std::uint64_t outer_serial,
                       const Block& block) noexcept {
  const std::uint64_t now = identity_in_force(self);
  if (now != identity_of(block.links.words)) {
    end_out_of_order(block_of(now), block, outer, outer_serial);
  } else if (block.links.is_spliced()) {
    const Words below =
        block.links.parent == nullptr ? Words{0, 0} : block.links.parent->links.words;
    labels::detail::put_in_force(self, still_there(below, block.links.parent_serial));
  } else {
    labels::detail::put_in_force(self, still_there(outer, outer_serial));
  }
}

}  // namespace vitrine::publish
