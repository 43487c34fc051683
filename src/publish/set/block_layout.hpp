// Where the parts of a block are, and how a small set is appended to another.
#pragma once

#include <algorithm>
#include <vitrine/labels.hpp>

#include "publish/base/block.hpp"
#include "publish/base/bytes.hpp"
#include "publish/set/keys.hpp"

namespace vitrine::publish {

// Where things are in a block, from how many of them there are; and its header.

inline constexpr std::size_t attributes_max =
    abi::thread_context::recommended_record_max - sizeof(abi::thread_context::Record);

/// Bytes of a value that go into a record: at most attribute_value_max, and whole characters.
inline std::size_t attribute_size(std::string_view value) noexcept {
  return utf8_prefix(value, abi::thread_context::attribute_value_max);
}

/// Whether a value can be an attribute of a record with `used` of `room` bytes taken: it must be UTF-8.
inline bool fits_record(std::string_view value, std::size_t used, std::size_t room) noexcept {
  const std::size_t size = attribute_size(value);
  return used + 2 + size <= room && is_ascii_or_utf8(part_of(value, 0, size));
}

struct Layout {
  std::size_t labels = 0;
  std::size_t attributes = 0;  ///< bytes in the record, after its header
  std::size_t strings = 0;     ///< bytes

  [[nodiscard]] std::size_t record_at() const noexcept {
    return sizeof(Block) + labels * (sizeof(Entry) + sizeof(Tag));
  }
  [[nodiscard]] std::size_t attributes_at() const noexcept {
    return record_at() + sizeof(abi::thread_context::Record);
  }
  [[nodiscard]] std::size_t strings_at() const noexcept { return attributes_at() + attributes; }
  [[nodiscard]] std::size_t total() const noexcept { return strings_at() + strings; }
};

/// Marks the block as being written: until `finish_block`, no copy of it passes for a set.
inline void begin_block(void* memory) noexcept {
  __atomic_store_n(&static_cast<Block*>(memory)->head.trailer.serial, 0, __ATOMIC_RELAXED);
  labels::detail::store_fence();
}

/// The ids and flags of a record.
inline void fill_record(char* block, const Layout& layout, const labels::Trace* trace,
                        const abi::thread_context::Record* base) noexcept {
  using Record = abi::thread_context::Record;
  char* at = block + layout.record_at();
  std::uint8_t flags = 0;
  const auto fill_ids = [&](const void* trace_id, const void* span_id, std::uint8_t trace_flags) {
    std::memcpy(at + offsetof(Record, trace_id), trace_id, 16);
    std::memcpy(at + offsetof(Record, span_id), span_id, 8);
    flags = trace_flags;
  };
  if (trace != nullptr) {
    fill_ids(trace->trace_id.bytes.data(), trace->span_id.bytes.data(), trace->flags);
  } else if (base != nullptr) {
    fill_ids(base->trace_id, base->span_id, base->trace_flags);
  } else {
    std::memset(at, 0, offsetof(Record, valid));
  }
  // One store for the last three fields, little-endian as the ABI is.
  static_assert(offsetof(Record, trace_flags) == offsetof(Record, valid) + 1 &&
                offsetof(Record, attrs_size) == offsetof(Record, valid) + 2);
  store(at + offsetof(Record, valid), std::uint32_t{1} | std::uint32_t{flags} << 8 |
                                          static_cast<std::uint32_t>(layout.attributes) << 16);
}

inline Words words_for(const char* block, const Layout& layout) noexcept {
  const auto address = reinterpret_cast<std::uint64_t>(block);
#if VITRINE_PUBLISH_ABI == 0
  return Words{address + sizeof(Block), layout.labels};
#elif VITRINE_PUBLISH_OTEL
  return Words{address + layout.record_at(), address};
#else
  (void)layout;
  return Words{0, address};
#endif
}

/// Writes the header, and with its serial makes the block a set.
inline Block* finish_block(const Room& room, const Layout& layout, std::size_t own,
                           const Block* base) noexcept {
  auto* block = reinterpret_cast<Block*>(room.memory);
  const auto address = reinterpret_cast<std::uint64_t>(block);
  block->head.set = {address + sizeof(Block), layout.labels, own};
  block->head.trailer.magic = abi::custom_labels::serial_magic;
  block->head.trailer.total_bytes = static_cast<std::uint32_t>(layout.total());
  block->head.trailer.flags = 0;
  block->head.trailer.self = address;
  block->links.below_serial = base != nullptr ? base->head.trailer.serial : 0;
  block->links.words = words_for(room.memory, layout);
  block->links.page = room.page;
  block->links.below = reinterpret_cast<std::uintptr_t>(base);
  __atomic_store_n(&block->head.trailer.serial, room.serial, __ATOMIC_RELEASE);
  return block;
}

// The common case of making a set, made fast: a few short labels on top of one of our sets, none of
// which hides another.

__attribute__((noinline)) inline bool are_utf8(const labels::Label* own,
                                               std::size_t count) noexcept {
  return std::all_of(own, own + count,
                     [](const labels::Label& label) { return is_utf8(label.value); });
}

/// What `build` would make, or null: this is not the common case, or there is no memory.
__attribute__((always_inline)) inline Block* append(Arena& arena, const Block* base,
                                                    const labels::Label* own,
                                                    std::size_t count) noexcept {
  constexpr bool in_record = VITRINE_PUBLISH_OTEL != 0;
  const std::size_t inherited = base != nullptr ? base->count() : 0;
  const Tag* base_tags = base != nullptr ? tags(*base) : nullptr;
  Layout base_layout{inherited, 0, 0};
  if (base != nullptr) {
    base_layout.attributes = record(*base).attrs_size;
    base_layout.strings = base->head.trailer.total_bytes - base_layout.strings_at();
  }
  Layout layout{inherited + count, base_layout.attributes, base_layout.strings};

  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const KeyData& key = *labels::Access::data(own[i].key);
    const std::size_t size = own[i].value.size();
    if (size > abi::thread_context::attribute_value_max) return nullptr;
    if (in_record && key.otel() < 0) return nullptr;
    if (in_record) seen |= bits_of(own[i].value.data(), size);
    (in_record ? layout.attributes : layout.strings) += size + (in_record ? 2 : 0);
    layout.strings += key.size;
    for (std::size_t j = 0; j < i; ++j) {
      if (own[j].key == own[i].key) return nullptr;
    }
    for (std::size_t j = 0; j < inherited; ++j) {
      if (base_tags[j].id == key.tag.id || base_tags[j].id == 0) return nullptr;
    }
  }
  if (layout.attributes > attributes_max || layout.total() > small_block_max) return nullptr;
  if (__builtin_expect((seen & high_bits) != 0, 0) && !are_utf8(own, count)) return nullptr;

  char* block = claim_small(arena, layout.total());
  if (block == nullptr) return nullptr;
  begin_block(block);
  auto* entry = reinterpret_cast<Entry*>(block + sizeof(Block));
  auto* tag = reinterpret_cast<Tag*>(entry + layout.labels);
  char* attribute = block + layout.attributes_at();
  char* string = block + layout.strings_at();
  for (std::size_t i = 0; i < count; ++i) {
    const KeyData& key = *labels::Access::data(own[i].key);
    const Tag now = key.now();
    const std::string_view value = own[i].value;
    char*& to = in_record ? attribute : string;
    if (in_record) {
      to[0] = static_cast<char>(now.otel);  // not below 0 any more
      to[1] = static_cast<char>(value.size());
      to += 2;
    }
    copy_bytes(to, value.data(), value.size());
    entry->value = {value.size(), to};
    to += value.size();
    copy_bytes(string, key.bytes, key.size);
    entry->key = {key.size, string};
    string += key.size;
    ++entry;
    *tag++ = now;
  }
  if (base != nullptr) {
    // Attributes and strings as they are, and the labels moved along with them.
    const char* from = reinterpret_cast<const char*>(base);
    const char* from_attributes = from + base_layout.attributes_at();
    const char* from_strings = from + base_layout.strings_at();
    copy_bytes(attribute, from_attributes, base_layout.attributes);
    copy_bytes(string, from_strings, base_layout.strings);
    const auto moved = [&](const char* at) {
      return at < from_strings ? attribute + (at - from_attributes) : string + (at - from_strings);
    };
    for (std::size_t i = 0; i < inherited; ++i) {
      const Entry& old = base->entries()[i];
      *entry++ = {{old.key.size, moved(old.key.data)}, {old.value.size, moved(old.value.data)}};
      *tag++ = base_tags[i];
    }
  }
  fill_record(block, layout, nullptr, base != nullptr ? &labels::detail::record(*base) : nullptr);
  Page& page = small_page_of(block);
  const auto unit =
      static_cast<std::uint64_t>(block - reinterpret_cast<char*>(&page)) >> small_unit_shift;
  return finish_block({block, &page, page.first_serial + unit}, layout, count, base);
}

}  // namespace vitrine::publish
