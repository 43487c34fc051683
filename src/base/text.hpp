// Text: characters, hexadecimal digits, UTF-8, globs, and the nearest spelling.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vitrine {

// The characters that words of every language here are made of, whatever the locale.

constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// What follows the last slash of a path.
constexpr std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

/// Whether a pattern of the shell has wildcards.
constexpr bool has_wildcards(std::string_view pattern) {
  return pattern.find_first_of("*?[") != pattern.npos;
}

/// "0x" and hexadecimal digits, and nothing behind them.
std::optional<std::uint64_t> parse_address(std::string_view text);

// Bytes as hexadecimal digits, and back.

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

// Bytes of targets as text: whether they are UTF-8, and what to write where only UTF-8 may stand.

struct CodePoint {
  char32_t value;
  std::size_t bytes;  ///< that spell it
};

/// The code point at the start of `text`, which is not empty; nullopt when the bytes are not
/// well-formed UTF-8 (overlong forms and surrogates are not).
std::optional<CodePoint> first_code_point(std::string_view text);

/// Whether a character must not be shown: controls (a newline, too, and the C1 that some terminals
/// obey), what ends a line or a paragraph, what changes the direction of others, and what is
/// invisible.
bool needs_escaping(char32_t character);

bool is_utf8(std::string_view bytes);

/// `bytes`, with U+FFFD for each byte that is not part of well-formed UTF-8.
std::string replaced_utf8(std::string_view bytes);

/// `text`, which is UTF-8, with a blank for each character that must not be shown.
std::string escape_controls(std::string_view text);

// Globs on values: any bytes, and never slower than pattern length times text length.

/// Whether `pattern` describes all of `text`: `*` any bytes, `?` one byte, `[a-z]` one of them,
/// `[!a-z]` one that is not, `\` takes the next byte as it is. A `[` without its `]` is itself.
bool glob_matches(std::string_view pattern, std::string_view text);

/// Whether a list of globs and `!GLOB`s takes `text`: the last one that matches decides; where none
/// does, it is taken if the first one leaves something out. An empty list takes everything.
bool is_listed(const std::vector<std::string>& globs, std::string_view text);

// Lists of pairs as OpenTelemetry's environment variables have them.

/// Without blanks and tabs at its ends.
std::string_view trimmed(std::string_view text);

/// "name=value,name=value" with percent-encoded values, as W3C baggage. Nothing: it is something else.
std::optional<std::vector<std::pair<std::string, std::string>>> parse_baggage(
    std::string_view text);

// How far a name is from one that was meant.

/// Characters to insert, delete, replace or swap with the next, each once, in the first 128 bytes.
std::size_t spelling_distance(std::string_view one, std::string_view other);

}  // namespace vitrine
