// Bytes as hexadecimal digits, and back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace vitrine {

/// Two lower-case digits a byte, with `separator` between bytes.
inline std::string hex_text(std::span<const std::byte> bytes, std::string_view separator = {}) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * (2 + separator.size()));
  for (const std::byte byte : bytes) {
    if (!text.empty()) text += separator;
    text += digits[std::to_integer<unsigned>(byte >> 4)];
    text += digits[std::to_integer<unsigned>(byte & std::byte{15})];
  }
  return text;
}
inline std::string hex_text(std::span<const std::uint8_t> bytes) {
  return hex_text(std::as_bytes(bytes));
}

/// Reads two lower-case digits for each byte of `into`. False: `text` is anything else.
template <std::size_t Size>
bool parse_hex(std::string_view text, std::array<std::uint8_t, Size>& into) {
  if (text.size() != 2 * Size) return false;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (std::size_t i = 0; i < Size; ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    into[i] = static_cast<std::uint8_t>(16 * high + low);
  }
  return true;
}

}  // namespace vitrine
