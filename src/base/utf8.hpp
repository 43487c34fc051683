// Bytes of others as text: whether they are UTF-8, and what to write where only UTF-8 may stand.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace vitrine {

struct CodePoint {
  char32_t value;
  std::size_t bytes;  ///< that spell it
};

/// The code point at the start of `text`, which is not empty; nullopt when the bytes are not
/// well-formed UTF-8 (overlong forms and surrogates are not).
std::optional<CodePoint> first_code_point(std::string_view text);

/// Whether a character is none to be shown: controls (a newline, too, and the C1 that some terminals
/// obey), what ends a line or a paragraph, what changes the direction of others, and what is
/// invisible.
bool is_steering(char32_t character);

bool is_utf8(std::string_view bytes);

/// `bytes`, with U+FFFD for each byte that is not part of well-formed UTF-8.
std::string replaced_utf8(std::string_view bytes);

/// `text`, which is UTF-8, with a blank for each character that is none to be shown.
std::string without_steering(std::string_view text);

}  // namespace vitrine
