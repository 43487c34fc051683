// Memoised transitions: entering a scope that was entered from the same set before takes the set
// made then, while it is still in the arena. An entry is checked against the page's serial, which
// changes when the page is turned, so entries need no care when sets go.
#pragma once

#include "publish/bytes.hpp"
#include "publish/keys.hpp"
#include "publish/local_atomic.hpp"
#include "publish/set_builder.hpp"

namespace vitrine::publish {

static_assert(memo_entries == 64);

/// What a set is looked up by. For one short label it is all there is to compare.
struct Question {
  std::uint64_t parent_serial;
  const void* key;
  std::uint32_t size;
  Ends ends;

  static constexpr std::uint64_t mixer = 0x9e3779b97f4a7c15;
  /// The longest value that `ends` has whole.
  static constexpr std::size_t longest = 16;

  [[nodiscard]] Recall& entry(Arena& arena) const noexcept {
    const std::uint64_t hash =
        (ends.head + (ends.tail ^ parent_serial) * 3 + reinterpret_cast<std::uintptr_t>(key)) *
        mixer;
    return arena.memo[hash >> 58];
  }
};

inline Question question_for_one(std::uint64_t parent_serial, const KeyData* key,
                                 std::string_view value) noexcept {
  return {parent_serial, key, static_cast<std::uint32_t>(value.size()),
          ends_of(value.data(), value.size())};
}

/// The set that `entry` has for the question, counted as one more use of its page; or null.
inline Block* recall(const Recall& entry, const Question& question) noexcept {
  const std::uint32_t version = entry.version & ~std::uint32_t{1};
  local_fence();
  if (entry.head != question.ends.head || entry.tail != question.ends.tail ||
      entry.size != question.size || entry.key != question.key ||
      entry.parent_serial != question.parent_serial)
    return nullptr;
  Block* block = entry.block;
  const std::uint64_t page_serial = entry.page_serial;
  local_fence();
  if (entry.version != version || block == nullptr) return nullptr;  // being written
  auto* page = reinterpret_cast<Page*>(reinterpret_cast<std::uintptr_t>(block) &
                                       ~std::uintptr_t{small_page_bytes - 1});
  local_increment(page->opened);  // first, so that no handler can turn to the page while we look
  local_fence();
  if (page->first_serial == page_serial && !block->spliced.load(std::memory_order_relaxed))
    return block;
  local_increment(page->closed);
  return nullptr;
}

void remember(Recall& entry, const Question& question, Block* block) noexcept;

/// The set of `change` on top of `parent` (one of ours, or null: the empty set), made before or
/// now.
Built recall_or_build(Arena& arena, Words base, const Block* parent, const Change& change) noexcept;

}  // namespace vitrine::publish
