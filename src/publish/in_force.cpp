#include "publish/in_force.hpp"

#if VITRINE_PUBLISH_ABI == 1
#include "publish/handle.hpp"
#endif

namespace vitrine::publish {

using labels::detail::Links;

namespace {

/// The holder of `block` ends while another set is in force. If that was made, by way of others,
/// from `block`, the one made right from it is told to put back what `block` would have.
void end_out_of_order(Block* above, const Block& block, const Words& outer,
                      std::uint64_t outer_serial) noexcept {
  constexpr int deepest = 256;
  for (int depth = 0; above != nullptr && depth < deepest; ++depth) {
    Block* below = above->links.parent();
    if (below == nullptr || below->serial() != above->links.below_serial) return;
    if (below == &block) {
      const auto set = reinterpret_cast<std::uintptr_t>(block_of(outer));
      __atomic_store_n(&above->links.below, set | Links::spliced, __ATOMIC_RELAXED);
      above->links.below_serial = set == 0 ? 0 : outer_serial;
      return;
    }
    above = below;
  }
}

}  // namespace

Words settled_words(Thread& self) noexcept {
#if VITRINE_PUBLISH_ABI == 1
  return settle(self, true);
#else
  return outer_words(self);
#endif
}

void take_out_of_force(Thread& self, const Words& outer, std::uint64_t outer_serial,
                       const Block& block) noexcept {
  const std::uint64_t now = identity_in_force(self);
  const Words mine = block.links.words;
  if (now != identity_of(mine)) {
    end_out_of_order(block_of(now), block, outer, outer_serial);
  } else if (block.links.is_spliced()) {
    const Block* parent = block.links.parent();
    const Words below = parent == nullptr ? Words{0, 0} : parent->links.words;
    labels::detail::put_in_force(self, still_there(below, block.links.below_serial));
  } else {
    labels::detail::put_in_force(self, still_there(outer, outer_serial));
  }
}

}  // namespace vitrine::publish
