// Interned keys: one object for each name, kept for the life of the process.
#pragma once

#include <cstdint>
#include <string_view>
#include <vitrine/labels.hpp>

#include "publish/base/block.hpp"

namespace vitrine::labels {
inline namespace VITRINE_DETAIL_ABI_NAMESPACE {
namespace detail {

/// Aligned so that its address plus the size of a short value names both (MemoKey::one).
struct alignas(32) KeyData {
  KeyData* next;  ///< in its bucket
  /// `tag.otel` may still change, from `later` to another value: see now().
  alignas(4) Tag tag;
  std::uint32_t size;
  /// Followed by at least 16 readable bytes, so that short names can be copied whole.
  char bytes[16];

  [[nodiscard]] std::string_view name() const noexcept { return {bytes, size}; }

  /// In Tag::otel: the key map could not take the key when it was interned; to be tried again.
  static constexpr std::int16_t later = -2;

  /// The tag as it is now.
  [[nodiscard]] Tag now() const noexcept {
    Tag whole;
    __atomic_load(&tag, &whole, __ATOMIC_RELAXED);
    return whole;
  }
  [[nodiscard]] std::int16_t otel() const noexcept {
    return __atomic_load_n(&tag.otel, __ATOMIC_RELAXED);
  }
};

static_assert(alignof(KeyData) > Ends::all);

}  // namespace detail
}  // namespace VITRINE_DETAIL_ABI_NAMESPACE
}  // namespace vitrine::labels

namespace vitrine::labels {
inline namespace VITRINE_DETAIL_ABI_NAMESPACE {

/// The library's way into the public types.
struct Access {
  static const detail::KeyData* data(Key key) noexcept { return key.data_; }
  static detail::Block* block(const Set& set) noexcept { return set.block_; }
  /// Takes over one hold of a kept block.
  static Set adopt(detail::Block* block, Errc status) noexcept {
    Set set;
    set.block_ = block;
    set.status_ = status;
    return set;
  }
};

}  // namespace VITRINE_DETAIL_ABI_NAMESPACE
}  // namespace vitrine::labels

namespace vitrine::publish {

using labels::detail::KeyData;

/// The key, made if need be; null in the cases of Key::ok(). Locks; may allocate. Gives keys that are not in
/// the key map for want of memory another chance.
const KeyData* intern(std::string_view name) noexcept;
/// The key if it was interned before, or null. No lock.
const KeyData* find_key(std::string_view name) noexcept;

/// Held by the forking thread across fork(), so that the child finds the table whole.
void lock_keys() noexcept;
void unlock_keys() noexcept;

/// The labels under which a trace shows in the label formats, and their ids.
inline constexpr std::uint16_t trace_id_tag = 1;
inline constexpr std::uint16_t span_id_tag = 2;
inline constexpr std::string_view trace_id_key = "trace_id";
inline constexpr std::string_view span_id_key = "span_id";

}  // namespace vitrine::publish
