// Block: an immutable label set as it lies in an arena, in both formats. The first 56 bytes are the
// ABI's set and the trailer by which observers validate a copy (docs/formats/custom-labels.md,
// "Serial trailer"); everything the set refers to is inside the block, which one read of 1 KiB
// usually gets whole:
//
//   Block | labels[count] | tags[count] | record, attributes | strings
//
// A value that is an attribute of the record is not stored twice: its label points there.
#pragma once

#include <cstdint>
#include <vitrine/detail/memo.hpp>
#include <vitrine/labels.hpp>

#include "abi/custom_labels.hpp"
#include "abi/thread_context.hpp"
#include "publish/base/arena.hpp"

namespace vitrine::labels {
inline namespace VITRINE_DETAIL_ABI_NAMESPACE {
namespace detail {

struct Block {
  abi::custom_labels::SerialSet head;
  Links links;

  [[nodiscard]] std::uint64_t serial() const noexcept {
    return __atomic_load_n(&head.trailer.serial, __ATOMIC_ACQUIRE);
  }
  [[nodiscard]] std::size_t count() const noexcept { return head.set.count; }
  [[nodiscard]] const Entry* entries() const noexcept {
    return reinterpret_cast<const Entry*>(this + 1);
  }
  /// The first so many labels were asked for, the rest inherited. (The ABI leaves the field to us.)
  [[nodiscard]] std::size_t own() const noexcept { return head.set.capacity; }
  [[nodiscard]] publish::Page& page() const noexcept {
    return *static_cast<publish::Page*>(links.page);
  }
};
static_assert(sizeof(Block) == 96 && alignof(Block) <= 64);
static_assert(offsetof(Block, links) == Links::at &&
              offsetof(Block, head.trailer.serial) == Links::serial_at);

/// What readers do not need of a label: its key's place in the tables.
struct Tag {
  std::uint16_t id;   ///< of the interned key; 0: not interned
  std::int16_t otel;  ///< index in the OpenTelemetry key map; -1: not there
};

inline const Tag* tags(const Block& block) noexcept {
  return reinterpret_cast<const Tag*>(block.entries() + block.count());
}

inline const abi::thread_context::Record& record(const Block& block) noexcept {
  return *reinterpret_cast<const abi::thread_context::Record*>(tags(block) + block.count());
}

}  // namespace detail
}  // namespace VITRINE_DETAIL_ABI_NAMESPACE
}  // namespace vitrine::labels

namespace vitrine::publish {

using labels::detail::Block;
using labels::detail::Entry;
using labels::detail::Segment;
using labels::detail::Tag;
using labels::detail::Words;

/// Follows a block that replaces another one: a scope's labels again, on top of what was left when
/// something below the scope ended. It shares the scope's use of the page.
struct alignas(16) Replacement {
  Words outer;       ///< to be put back when the scope ends
  Block* of;         ///< the block that the scope knows,
  Segment* segment;  ///< and the segment

  static std::size_t at(std::size_t total_bytes) noexcept { return (total_bytes + 15) / 16 * 16; }
};

inline Replacement& replacement(const Block& block) noexcept {
  return *reinterpret_cast<Replacement*>(reinterpret_cast<std::uintptr_t>(&block) +
                                         Replacement::at(block.head.trailer.total_bytes));
}

/// The word of `Words` that no other set has.
inline constexpr int identity = VITRINE_PUBLISH_ABI == 0 ? 0 : 1;

inline std::uint64_t identity_of(const Words& words) noexcept {
  return reinterpret_cast<const std::uint64_t*>(&words)[identity];
}

/// The block of that identity; null: none, or another writer's set.
inline Block* block_of(std::uint64_t identity_word) noexcept {
#if VITRINE_PUBLISH_ABI == 0
  return identity_word == 0 ? nullptr : reinterpret_cast<Block*>(identity_word - sizeof(Block));
#else
  // Blocks are aligned to 64 bytes, so the look at the trailer stays within the page of a foreign
  // set's first byte.
  if (identity_word == 0 || identity_word % 64 != 0) return nullptr;
  auto* block = reinterpret_cast<Block*>(identity_word);
  const abi::custom_labels::SerialTrailer& trailer = block->head.trailer;
  return trailer.magic == abi::custom_labels::serial_magic && trailer.self == identity_word
             ? block
             : nullptr;
#endif
}

/// The block that `words` put in force, or null when they are empty or another writer's set.
inline Block* block_of(const Words& words) noexcept {
  return block_of(identity_of(words));
}

/// The labels that `words` put in force, whichever library wrote them.
inline labels::detail::Entries entries_of(const Words& words) noexcept {
#if VITRINE_PUBLISH_ABI == 0
  return {reinterpret_cast<const Entry*>(words[0]), words[1]};
#else
  const auto* set = reinterpret_cast<const abi::custom_labels::SetV1*>(words[1]);
  if (set == nullptr) return {nullptr, 0};
  return {reinterpret_cast<const Entry*>(set->storage), set->count};
#endif
}

/// The record with the trace that `words` put in force; null: none.
inline const abi::thread_context::Record* record_of(const Words& words) noexcept {
  if (const Block* block = block_of(words)) return &labels::detail::record(*block);
#if VITRINE_PUBLISH_OTEL
  return reinterpret_cast<const abi::thread_context::Record*>(words[0]);  // a handle's
#else
  return nullptr;
#endif
}

inline bool same(const Words& a, const Words& b) noexcept {
  return a[0] == b[0] && a[1] == b[1];
}

}  // namespace vitrine::publish
