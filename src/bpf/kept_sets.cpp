#include "bpf/kept_sets.hpp"

#include <utility>

namespace vitrine::bpf {
namespace {

constexpr std::size_t entry_overhead = 128;  // of the map, the vector and the allocations

}  // namespace

KeptSets::Epoch* KeptSets::of(std::uint32_t epoch) {
  if (epoch == current_.epoch) return &current_;
  return epoch == before_.epoch ? &before_ : nullptr;
}

void KeptSets::keep(Epoch& epoch, const FireSet& set) {
  const auto [entry, is_new] = epoch.sets.try_emplace(set.head.id);
  if (!is_new) return;
  entry->second.assign(set.kept.begin(), set.kept.end());
  epoch.bytes += set.kept.size() + entry_overhead;
}

void KeptSets::complete(const vitrine_moment& moment, std::span<FireSet> sets) {
  Epoch* epoch = of(moment.epoch);
  for (FireSet& set : sets) {
    if (set.head.id == 0) continue;
    if (!set.kept.empty()) {
      if (epoch != nullptr) keep(*epoch, set);
      continue;
    }
    const auto known =
        epoch == nullptr ? decltype(epoch->sets.find(0)){} : epoch->sets.find(set.head.id);
    set.forgotten = epoch == nullptr || known == epoch->sets.end();
    // What was parsed when it came parses again.
    if (!set.forgotten) (void)parse_fire_chunks(known->second, set.chunks);
  }
  if (current_.bytes <= most_bytes_) return;
  before_ = std::exchange(current_, Epoch{current_.epoch + 1, 0, {}});
}

}  // namespace vitrine::bpf
