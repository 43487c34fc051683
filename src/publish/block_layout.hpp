// Where things are in a block, from how many of them there are; and its header.
#pragma once

#include <algorithm>
#include <vitrine/labels.hpp>

#include "publish/block.hpp"
#include "publish/bytes.hpp"

namespace vitrine::publish {

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

/// Says that the block is being written: until `finish_block`, no copy of it passes for a set.
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

}  // namespace vitrine::publish
