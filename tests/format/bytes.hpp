// Bytes: literal byte tables, member by member, as the format documents write them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "support/buffer_memory.hpp"

namespace vitrine::test {

class Bytes {
 public:
  Bytes& u8(std::uint8_t value) { return raw(&value, sizeof value); }
  Bytes& u16(std::uint16_t value) { return raw(&value, sizeof value); }
  Bytes& u32(std::uint32_t value) { return raw(&value, sizeof value); }
  Bytes& u64(std::uint64_t value) { return raw(&value, sizeof value); }
  Bytes& text(std::string_view value) { return raw(value.data(), value.size()); }
  Bytes& fill(std::size_t count, std::uint8_t value) {
    bytes_.insert(bytes_.end(), count, std::byte{value});
    return *this;
  }
  /// A {length, address} pair: custom_labels_string_t.
  Bytes& string(std::uint64_t length, Address address) { return u64(length).u64(address); }

  std::size_t size() const { return bytes_.size(); }
  operator std::vector<std::byte>() const { return bytes_; }
  operator std::span<const std::byte>() const { return bytes_; }
  std::vector<std::byte> first(std::size_t count) const {
    return {bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(count)};
  }

 private:
  Bytes& raw(const void* data, std::size_t size) {
    const auto* from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
    return *this;
  }

  std::vector<std::byte> bytes_;
};

inline std::vector<std::byte> bytes_of(std::string_view text) {
  return Bytes().text(text);
}

}  // namespace vitrine::test
