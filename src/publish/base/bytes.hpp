// Moving the few bytes that labels are made of, without the price of a call for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace vitrine::publish {

/// `text.substr(at, count)` where `at` is known to be within it: without the check that may throw.
inline std::string_view part_of(std::string_view text, std::size_t at,
                                std::size_t count = std::string_view::npos) noexcept {
  const std::size_t rest = text.size() - at;
  return {text.data() + at, count < rest ? count : rest};
}

template <class T>
inline T load(const char* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
inline void store(char* to, T value) noexcept {
  std::memcpy(to, &value, sizeof(T));
}

/// Copies `size` bytes; short runs by two overlapping moves.
inline void copy_bytes(char* to, const char* from, std::size_t size) noexcept {
  struct Sixteen {
    std::uint64_t words[2];
  };
  if (size > 32) {
    std::memcpy(to, from, size);
  } else if (size >= 16) {
    const auto tail = load<Sixteen>(from + size - 16);
    store(to, load<Sixteen>(from));
    store(to + size - 16, tail);
  } else if (size >= 8) {
    const auto tail = load<std::uint64_t>(from + size - 8);
    store(to, load<std::uint64_t>(from));
    store(to + size - 8, tail);
  } else if (size >= 4) {
    const auto tail = load<std::uint32_t>(from + size - 4);
    store(to, load<std::uint32_t>(from));
    store(to + size - 4, tail);
  } else if (size != 0) {
    const char middle = from[size / 2], last = from[size - 1];
    to[0] = from[0];
    to[size / 2] = middle;
    to[size - 1] = last;
  }
}

/// What `equal_bytes` leaves of more than 16 bytes.
__attribute__((noinline)) inline bool equal_middles(const char* a, const char* b,
                                                    std::size_t size) noexcept {
  if (size > 64) return std::memcmp(a + 8, b + 8, size - 16) == 0;
  for (std::size_t at = 8; at + 8 < size; at += 8) {
    if (load<std::uint64_t>(a + at) != load<std::uint64_t>(b + at)) return false;
  }
  return true;
}

/// Two overlapping comparisons are all for up to 16 bytes.
inline bool equal_bytes(const char* a, const char* b, std::size_t size) noexcept {
  if (__builtin_expect(size >= 8, 1)) {
    return __builtin_expect(load<std::uint64_t>(a) == load<std::uint64_t>(b), 1) &&
           __builtin_expect(load<std::uint64_t>(a + size - 8) == load<std::uint64_t>(b + size - 8),
                            1) &&
           (__builtin_expect(size <= 16, 1) || equal_middles(a, b, size));
  }
  if (size >= 4) {
    return load<std::uint32_t>(a) == load<std::uint32_t>(b) &&
           load<std::uint32_t>(a + size - 4) == load<std::uint32_t>(b + size - 4);
  }
  return size == 0 || (a[0] == b[0] && a[size / 2] == b[size / 2] && a[size - 1] == b[size - 1]);
}

/// Writes two lower-case hex digits for each of `count` bytes (a multiple of 4).
inline void to_hex(char* to, const std::uint8_t* from, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; i += 4) {
    // Four bytes, each in a lane of two; then its digits, the high one first in memory.
    std::uint64_t v = load<std::uint32_t>(reinterpret_cast<const char*>(from + i));
    v = (v << 16 | v) & 0x0000ffff0000ffff;
    v = (v << 8 | v) & 0x00ff00ff00ff00ff;
    v = (v >> 4 & 0x000f000f000f000f) | (v & 0x000f000f000f000f) << 8;
    const std::uint64_t letters = (v + 0x0606060606060606) >> 4 & 0x0101010101010101;
    store(to + 2 * i, v + 0x3030303030303030 + letters * ('a' - '0' - 10));
  }
}

/// The value of a hex digit of either case; -1: it is none.
constexpr int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

inline constexpr std::uint64_t high_bits = 0x8080808080808080;

/// Has bits of `high_bits` if a byte is not below 0x80.
inline std::uint64_t bits_of(const char* data, std::size_t size) noexcept {
  if (size >= 8) {
    std::uint64_t seen = load<std::uint64_t>(data) | load<std::uint64_t>(data + size - 8);
    for (std::size_t at = 8; at + 8 < size; at += 8) seen |= load<std::uint64_t>(data + at);
    return seen;
  }
  if (size >= 4) return load<std::uint32_t>(data) | load<std::uint32_t>(data + size - 4);
  std::uint64_t seen = 0;
  for (std::size_t at = 0; at < size; ++at) seen |= static_cast<unsigned char>(data[at]);
  return seen;
}

/// Whether all bytes are below 0x80.
inline bool is_ascii(const char* data, std::size_t size) noexcept {
  return (bits_of(data, size) & high_bits) == 0;
}

/// Whether `text` is well-formed UTF-8: no surrogates, no overlong forms.
__attribute__((noinline)) inline bool is_utf8(std::string_view text) noexcept {
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = at + text.size();
  while (at != end) {
    const unsigned lead = *at++;
    if (lead < 0x80) continue;
    const int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || end - at < more) return false;
    // The second byte alone rules out overlong forms, surrogates, and what lies past U+10FFFF.
    const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (*at < low || *at > high) return false;
    for (int i = 1; i < more; ++i)
      if ((at[i] & 0xc0) != 0x80) return false;
    at += more;
  }
  return true;
}

/// is_utf8, quick where all bytes are below 0x80.
inline bool is_ascii_or_utf8(std::string_view text) noexcept {
  return __builtin_expect(is_ascii(text.data(), text.size()), 1) || is_utf8(text);
}

/// The longest prefix of at most `limit` bytes that does not end inside a UTF-8 sequence.
inline std::size_t utf8_prefix(std::string_view text, std::size_t limit) noexcept {
  if (text.size() <= limit) return text.size();
  std::size_t end = limit;
  // A continuation byte right after the cut means that it splits a sequence of up to four bytes.
  for (int back = 0; back < 3 && end > 0; ++back) {
    if ((static_cast<unsigned char>(text[end]) & 0xc0) != 0x80) return end;
    --end;
  }
  return (static_cast<unsigned char>(text[end]) & 0xc0) != 0x80 ? end : limit;
}

}  // namespace vitrine::publish
