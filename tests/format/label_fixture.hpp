// LabelImage: a target's memory with custom-labels structures in it, laid out by hand.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "format/bytes.hpp"
#include "format/decode.hpp"

namespace vitrine::test {

inline constexpr Address slot_at = 0x10'0000;
inline constexpr Address set_at = 0x20'0000;
inline constexpr Address array_at = 0x30'0000;
inline constexpr Address strings_at = 0x40'0000;

/// A v1 publisher: slot, set of 24 bytes, label array, strings one after the other.
class LabelImage {
 public:
  /// Puts a string into the target's memory: {length, address}.
  std::pair<std::uint64_t, Address> string(std::string_view text) {
    const Address at = strings_at + strings_.size();
    strings_.text(text);
    return {text.size(), at};
  }

  LabelImage& label(std::string_view key, std::string_view value) {
    const auto [key_length, key_at] = string(key);
    const auto [value_length, value_at] = string(value);
    return entry(key_length, key_at, value_length, value_at);
  }

  LabelImage& entry(std::uint64_t key_length, Address key, std::uint64_t value_length,
                    Address value) {
    array_.string(key_length, key).string(value_length, value);
    ++count_;
    return *this;
  }

  /// Places everything; `count` other than the entries' own for a publisher that lies.
  void build(BufferMemory& memory, std::optional<std::uint64_t> count = {}) const {
    memory.place(slot_at, Bytes().u64(set_at));
    memory.place(set_at, Bytes().u64(array_at).u64(count.value_or(count_)).u64(count_));
    memory.place(array_at, array_);
    memory.place(strings_at, strings_);
  }

 private:
  Bytes array_;
  Bytes strings_;
  std::uint64_t count_ = 0;
};

inline Result<format::Decoded> decode_v1(const LabelImage& image,
                                         format::DecodeContext context = {},
                                         std::optional<std::uint64_t> count = {}) {
  BufferMemory memory;
  image.build(memory, count);
  return format::decode(format::Format::custom_labels_v1, memory, slot_at, context);
}

inline bool has_cut(const format::LabelSet& set, std::string_view what) {
  return std::any_of(set.truncated.begin(), set.truncated.end(),
                     [&](const format::Truncation& cut) { return cut.what == what; });
}

}  // namespace vitrine::test
