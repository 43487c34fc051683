// Memoised transitions: entering a scope that was entered from the same set before takes the set
// made then, while it is still in the arena. What is looked up, and where, is in
// <vitrine/detail/memo.hpp>: scopes of one label do it in their caller.
#pragma once

#include "publish/base/block.hpp"
#include "publish/base/bytes.hpp"
#include "publish/base/local_atomic.hpp"
#include "publish/base/thread.hpp"
#include "publish/set/keys.hpp"
#include "publish/set_builder.hpp"

namespace vitrine::publish {

using labels::detail::Ends;
using labels::detail::MemoKey;
using labels::detail::Recall;

/// Comparing more labels than this would cost as much as making the set.
inline constexpr std::size_t max_recalled = 8;

/// Makes the key by which the set of these labels is looked up. False: not worth it, or not valid.
inline bool make_key(MemoKey& memo_key, const Thread& thread, const labels::Label* label,
                     std::size_t count) noexcept {
  if (__builtin_expect(count - 1 >= max_recalled, 0)) return false;
  constexpr std::uint64_t mixer = 0x9e3779b97f4a7c15;
  std::uint64_t head = 0, tail = 0;
  for (const labels::Label* const end = label + count; label != end; ++label) {
    if (__builtin_expect(!label->key.ok(), 0) ||
        __builtin_expect(label->value.size() > labels::max_value_bytes, 0))
      return false;
    const Ends ends = Ends::of(label->value.data(), label->value.size());
    // Two sums at once: multiplications that do not wait for each other.
    head = (head + ends.head + reinterpret_cast<std::uintptr_t>(labels::Access::data(label->key))) *
           mixer;
    tail = (tail + ends.tail + label->value.size()) * mixer;
  }
  const volatile std::uint64_t* outer = labels::detail::words_in_force(thread);
  memo_key = {{outer[0], outer[1]}, MemoKey::several(count), {head, tail}};
  return true;
}

/// Whether a block found by a key that `make_key` made has those labels: it compared a hash.
VITRINE_DETAIL_ALWAYS_INLINE bool has_labels(const Block& block, const labels::Label* label,
                                             std::size_t count) noexcept {
  if (__builtin_expect(block.own() != count, 0)) return false;
  const Tag* tag = tags(block);
  const Entry* entry = block.entries();
  for (const labels::Label* const end = label + count; label != end; ++label, ++tag, ++entry) {
    if (__builtin_expect(tag->id != labels::Access::data(label->key)->tag.id, 0) ||
        __builtin_expect(entry->value.size != label->value.size(), 0) ||
        !equal_bytes(entry->value.data, label->value.data(), label->value.size()))
      return false;
  }
  return true;
}

/// False: a set made now may lack an attribute that one made later has, once the key map takes the
/// key. It is not to be remembered.
inline bool are_tags_settled(const labels::Label* label, std::size_t count) noexcept {
  for (const labels::Label* const end = label + count; label != end; ++label) {
    if (labels::Access::data(label->key)->otel() == KeyData::later) return false;
  }
  return true;
}

/// Notes that `block`, of a small page, belongs to the key. It was made on top of nothing or of
/// one of our sets: what another writer has in force may change.
inline void remember(Arena& arena, const MemoKey& memo_key, Block* block) noexcept {
  Recall& entry = arena.memo[memo_key.entry()];
  if (entry.what == Recall::writing) return;  // this is a handler, and interrupted `remember`
  entry.what = Recall::writing;
  local_fence();
  entry.below = memo_key.below();
  entry.ends.head = memo_key.ends.head;  // each by itself, as they were written just now
  entry.ends.tail = memo_key.ends.tail;
  entry.block = block;
  entry.stamp = small_page_of(block).first_serial;
  local_fence();
  entry.what = memo_key.what;
}

}  // namespace vitrine::publish
