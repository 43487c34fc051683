// Text: characters, hexadecimal digits, UTF-8, globs, hashes of names, and the nearest spelling.
#pragma once

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

/// Hands `put` two lower-case digits a byte.
template <class Put>
void put_hex(std::span<const std::byte> bytes, Put put) {
  constexpr std::string_view digits = "0123456789abcdef";
  for (const std::byte byte : bytes) {
    put(digits[std::to_integer<unsigned>(byte >> 4)]);
    put(digits[std::to_integer<unsigned>(byte & std::byte{15})]);
  }
}

/// The same as text, with `separator` between bytes.
inline std::string hex_text(std::span<const std::byte> bytes, std::string_view separator = {}) {
  std::string text;
  text.reserve(bytes.size() * (2 + separator.size()));
  for (const std::byte& byte : bytes) {
    if (!text.empty()) text += separator;
    put_hex(std::span(&byte, 1), [&](char digit) { text += digit; });
  }
  return text;
}
inline std::string hex_text(std::span<const std::uint8_t> bytes) {
  return hex_text(std::as_bytes(bytes));
}

/// Reads two lower-case digits for each byte of `into`. False: `text` is anything else, and `into` is all zeros.
bool parse_hex(std::string_view text, std::span<std::uint8_t> into);

// Bytes in Base64 (RFC 4648), and back.

std::string base64_text(std::string_view bytes);

/// What `text` encodes, with or without padding, up to the first character that is not of the alphabet.
std::string base64_bytes(std::string_view text);

/// Whether these bytes are the id of a trace or a span: W3C's rule, by which zeros are none.
constexpr bool is_id(std::span<const std::uint8_t> bytes) {
  for (const std::uint8_t byte : bytes)
    if (byte != 0) return true;
  return false;
}

// Hashes of names.

template <class Word>
inline constexpr Word fnv1a_start = sizeof(Word) == 4 ? Word{0x811c9dc5}
                                                      : static_cast<Word>(0xcbf29ce484222325);

/// FNV-1a of 32 or 64 bits, for names that must be the same in every build of the same source. `from`: the hash of
/// the bytes before. Not for tables of names that a target chooses: it has no secret key.
template <class Word>
constexpr Word fnv1a(std::span<const std::byte> bytes, Word from = fnv1a_start<Word>) {
  constexpr auto prime = static_cast<Word>(sizeof(Word) == 4 ? 0x01000193 : 0x100000001b3);
  for (const std::byte one : bytes) from = (from ^ std::to_integer<Word>(one)) * prime;
  return from;
}
template <class Word>
Word fnv1a(std::string_view text, Word from = fnv1a_start<Word>) {
  return fnv1a<Word>(std::as_bytes(std::span(text)), from);
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

/// For the beginning of a longer text: how many of its bytes are whole characters. All, if it is not UTF-8 before the last
/// character.
std::size_t whole_characters(std::string_view beginning);

/// `bytes`, with U+FFFD for each byte that is not part of well-formed UTF-8.
std::string replaced_utf8(std::string_view bytes);

/// `text`, which is UTF-8, with a blank for each character that must not be shown.
std::string replaced_controls(std::string_view text);

// Globs on values: any bytes, and never slower than pattern length times text length.

/// Whether `pattern` describes all of `text`: `*` any bytes, `?` one byte, `[a-z]` one of them,
/// `[!a-z]` one that is not, `\` takes the next byte as it is. A `[` without its `]` is itself.
bool glob_matches(std::string_view pattern, std::string_view text);

/// Whether a list of globs and `!GLOB`s takes `text`: the last one that matches decides; where none
/// does, it is taken if the first one leaves something out. An empty list takes everything.
bool is_listed(const std::vector<std::string>& globs, std::string_view text);

/// Without the characters of `blanks` at its ends.
std::string_view trimmed(std::string_view text, std::string_view blanks = " \t");

// Lists of pairs as OpenTelemetry's environment variables have them.

/// "name=value,name=value" with percent-encoded values, as W3C baggage. Nothing: it is something else.
std::optional<std::vector<std::pair<std::string, std::string>>> parse_baggage(
    std::string_view text);

// How far a name is from one that was meant.

/// Characters to insert, delete, replace or swap with the next, each once, in the first 128 bytes.
std::size_t spelling_distance(std::string_view one, std::string_view other);

}  // namespace vitrine
