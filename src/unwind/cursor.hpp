// Cursor: reads DWARF's numbers from bytes, and stops at their end.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace vitrine::unwind {

/// Past the end, every number is 0 and `failed()` tells so. Little-endian.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool at_end() const { return failed_ || at_ == bytes_.size(); }
  [[nodiscard]] std::size_t position() const { return at_; }

  template <class T>
  T number() {
    T value{};
    if (bytes_.size() - at_ < sizeof value) {
      fail();
      return value;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::uint8_t u8() { return number<std::uint8_t>(); }

  /// Bits beyond the 64th are dropped.
  std::uint64_t uleb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const std::uint8_t byte = u8();
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  std::int64_t sleb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;;) {
      const std::uint8_t byte = u8();
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      shift += 7;
      if (byte >= 0x80) continue;
      if (shift < 64 && (byte & 0x40) != 0) value |= ~std::uint64_t{0} << shift;
      return static_cast<std::int64_t>(value);
    }
  }

  std::span<const std::byte> take(std::uint64_t size) {
    if (size > bytes_.size() - at_) {
      fail();
      return {};
    }
    const auto part = bytes_.subspan(at_, static_cast<std::size_t>(size));
    at_ += part.size();
    return part;
  }
  std::span<const std::byte> rest() { return take(bytes_.size() - at_); }

  /// To `distance` bytes from here, within the bytes.
  void jump(std::int64_t distance) {
    const auto to = static_cast<std::uint64_t>(at_) + static_cast<std::uint64_t>(distance);
    if (to > bytes_.size()) return fail();
    at_ = static_cast<std::size_t>(to);
  }

 private:
  void fail() {
    failed_ = true;
    at_ = bytes_.size();
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace vitrine::unwind
