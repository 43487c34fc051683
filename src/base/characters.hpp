// The characters that words of every language here are made of, whatever the locale.
#pragma once

namespace vitrine {

constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace vitrine
