#include "base/utf8.hpp"

#include <algorithm>
#include <cstdint>

namespace vitrine {

std::optional<CodePoint> first_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return CodePoint{lead, 1};
  std::size_t length = 0;
  char32_t value = 0;
  char32_t smallest = 0;
  if ((lead & 0xe0) == 0xc0) {
    length = 2, value = lead & 0x1f, smallest = 0x80;
  } else if ((lead & 0xf0) == 0xe0) {
    length = 3, value = lead & 0x0f, smallest = 0x800;
  } else if ((lead & 0xf8) == 0xf0) {
    length = 4, value = lead & 0x07, smallest = 0x10000;
  } else {
    return std::nullopt;
  }
  if (text.size() < length) return std::nullopt;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return std::nullopt;
    value = (value << 6) | (byte(i) & 0x3f);
  }
  const bool surrogate = value >= 0xd800 && value <= 0xdfff;
  if (value < smallest || value > 0x10ffff || surrogate) return std::nullopt;
  return CodePoint{value, length};
}

bool is_steering(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0xad || c == 0x34f || c == 0x61c ||
         (c >= 0x115f && c <= 0x1160) || (c >= 0x17b4 && c <= 0x17b5) ||
         (c >= 0x180b && c <= 0x180f) || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0x3164 ||
         c == 0xfeff || c == 0xffa0 || (c >= 0xfff9 && c <= 0xfffb) ||
         (c >= 0xe0000 && c <= 0xe0fff);
}

std::string without_steering(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_code_point(text).value_or(CodePoint{0, 1});
    out += is_steering(point.value) ? " " : text.substr(0, point.bytes);
    text.remove_prefix(point.bytes);
  }
  return out;
}

bool is_utf8(std::string_view bytes) {
  const auto is_ascii = [](char c) { return static_cast<std::uint8_t>(c) < 0x80; };
  if (std::all_of(bytes.begin(), bytes.end(), is_ascii)) return true;  // most are
  while (!bytes.empty()) {
    const auto point = first_code_point(bytes);
    if (!point) return false;
    bytes.remove_prefix(point->bytes);
  }
  return true;
}

std::string replaced_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const auto point = first_code_point(bytes);
    const std::size_t length = point ? point->bytes : 1;
    out += point ? bytes.substr(0, length) : std::string_view("\xef\xbf\xbd");
    bytes.remove_prefix(length);
  }
  return out;
}

}  // namespace vitrine
