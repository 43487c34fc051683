#include "publish/memo.hpp"

#include "publish/bytes.hpp"
#include "publish/keys.hpp"
#include "publish/local_atomic.hpp"

namespace vitrine::publish {
namespace {

/// Comparing more labels than this would cost as much as making the set.
constexpr std::size_t max_recalled = 8;

bool made_for(const Block& block, const Block* base, const Change& change) noexcept {
  if (block.parent != base || block.own != change.count ||
      block.spliced.load(std::memory_order_relaxed))
    return false;
  if (block.parent_serial != (base == nullptr ? 0 : base->serial())) return false;
  const Tag* tag = tags(block);
  for (std::size_t i = 0; i < change.count; ++i) {
    const labels::Label& label = change.labels[i];
    const labels::detail::Name& value = block.entries()[i].value;
    if (tag[i].id != labels::Access::data(label.key)->tag.id || value.size != label.value.size() ||
        !equal_bytes(value.data, label.value.data(), value.size))
      return false;
  }
  return true;
}

/// The set, counted as one more live scope; null when it was overwritten or is not the one wanted.
Block* recall(Block* block, const Block* base, const Change& change) noexcept {
  if (block == nullptr) return nullptr;
  auto* page = reinterpret_cast<Page*>(reinterpret_cast<std::uintptr_t>(block) &
                                       ~std::uintptr_t{small_page_bytes - 1});
  ++page->live;  // first, so that no handler can turn to the page while we look
  local_fence();
  if (page->starts_at(block) && block->serial() == page->serial_of(block) &&
      made_for(*block, base, change))
    return block;
  --page->live;
  return nullptr;
}

std::size_t slot_for(const Block* base, const Change& change) noexcept {
  std::uint64_t hash = reinterpret_cast<std::uintptr_t>(base) >> 6;
  for (std::size_t i = 0; i < change.count; ++i) {
    const labels::Label& label = change.labels[i];
    hash ^= labels::Access::data(label.key)->tag.id;
    hash = (hash ^ digest(label.value.data(), label.value.size())) * 0x9e3779b97f4a7c15;
  }
  return hash >> 58;
}
static_assert(memo_entries == 64);

}  // namespace

Built build_or_recall(Arena& arena, Words base, const Change& change) noexcept {
  const Block* parent = block_of(base);
  bool may_recall = change.trace == nullptr && change.count - 1 < max_recalled &&
                    (parent != nullptr || same(base, Words{0, 0}));
  for (std::size_t i = 0; may_recall && i < change.count; ++i)
    may_recall = change.labels[i].key.ok();
  if (!may_recall) return build(arena, base, change);

  Block*& remembered = arena.memo[slot_for(parent, change)];
  if (Block* block = recall(remembered, parent, change)) return {block, labels::Status::ok};
  const Built built = build(arena, base, change);
  if (built.block != nullptr && built.block->page->unit_shift == small_unit_shift)
    remembered = built.block;
  return built;
}

}  // namespace vitrine::publish
