// Cursor: reads the numbers of DWARF and of tables like it from bytes, one after the other, and stops
// at their end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "elf/file.hpp"

namespace vitrine::elf {

/// Past the end, every number is 0, every part is empty, and failed() is true. The bytes may be those of a hostile
/// file: they must outlive the cursor, and need no alignment. Numbers of a fixed size have the byte order of the
/// encoding, without one little-endian.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes, const Encoding& encoding = {})
      : bytes_(bytes), encoding_(encoding) {}

  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool at_end() const { return failed_ || at_ == bytes_.size(); }
  [[nodiscard]] std::size_t position() const { return at_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - at_; }

  /// Of 1, 2, 4 or 8 bytes, with or without a sign.
  template <class T>
  T number() {
    const auto bytes = take(sizeof(T));
    return bytes.empty() ? T{} : encoding_.number<T>(bytes.data());
  }
  std::uint8_t u8() { return number<std::uint8_t>(); }

  /// Of 4 or 8 bytes: offsets and addresses, whose size the data declares. Another size fails.
  std::uint64_t word(std::size_t size) {
    if (size == 4) return number<std::uint32_t>();
    if (size == 8) return number<std::uint64_t>();
    fail();
    return 0;
  }

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

  /// The next `size` bytes.
  std::span<const std::byte> take(std::uint64_t size) {
    if (size > left()) {
      fail();
      return {};
    }
    const auto part = bytes_.subspan(at_, static_cast<std::size_t>(size));
    at_ += part.size();
    return part;
  }
  std::span<const std::byte> rest() { return take(left()); }

  /// The next `size` bytes as a cursor of their own; that has failed, too, where there are fewer.
  Cursor part(std::uint64_t size) {
    Cursor part(take(size), encoding_);
    part.failed_ = failed_;
    return part;
  }

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
  Encoding encoding_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace vitrine::elf
