#include "base/text.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace vitrine {

std::optional<std::uint64_t> parse_address(std::string_view text) {
  if (!text.starts_with("0x")) return std::nullopt;
  text.remove_prefix(2);
  std::uint64_t address = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, address, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return address;
}

bool parse_hex(std::string_view text, std::span<std::uint8_t> into) {
  std::ranges::fill(into, std::uint8_t{0});
  if (text.size() != 2 * into.size()) return false;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (std::size_t i = 0; i < into.size(); ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      std::ranges::fill(into, std::uint8_t{0});
      return false;
    }
    into[i] = static_cast<std::uint8_t>(16 * high + low);
  }
  return true;
}

namespace {

constexpr std::string_view base64_alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64_text(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = (group << 8) | (k < n ? static_cast<std::uint8_t>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      out += k <= n ? base64_alphabet[(group >> (18 - 6 * k)) & 63] : '=';
  }
  return out;
}

std::string base64_bytes(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    const std::size_t value = base64_alphabet.find(c);
    if (value == base64_alphabet.npos) break;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out += static_cast<char>(bits >> have & 0xff);
  }
  return out;
}

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

bool needs_escaping(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0xad || c == 0x34f || c == 0x61c ||
         (c >= 0x115f && c <= 0x1160) || (c >= 0x17b4 && c <= 0x17b5) ||
         (c >= 0x180b && c <= 0x180f) || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0x3164 ||
         c == 0xfeff || c == 0xffa0 || (c >= 0xfff9 && c <= 0xfffb) ||
         (c >= 0xe0000 && c <= 0xe0fff);
}

std::string replaced_controls(std::string_view text) {
  const auto is_printable_ascii = [](char c) { return c >= 0x20 && c < 0x7f; };
  if (std::all_of(text.begin(), text.end(), is_printable_ascii)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_code_point(text).value_or(CodePoint{0, 1});
    out += needs_escaping(point.value) ? " " : text.substr(0, point.bytes);
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

std::size_t whole_characters(std::string_view beginning) {
  const std::size_t size = beginning.size();
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, size); ++back) {
    const auto byte = static_cast<std::uint8_t>(beginning[size - back]);
    if ((byte & 0xc0) == 0x80) continue;  // not the first of its character
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    const bool is_cut = back < length && byte < 0xf8 && is_utf8(beginning.substr(0, size - back));
    return is_cut ? size - back : size;
  }
  return size;
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

namespace {

constexpr std::size_t none = std::string_view::npos;

/// Where the set that begins with the `[` at `at` ends (behind its `]`), or none. A `]` that comes
/// first is one of the set.
std::size_t set_end(std::string_view pattern, std::size_t at) {
  std::size_t first = at + 1;
  if (first < pattern.size() && pattern[first] == '!') ++first;
  const std::size_t close = pattern.find(']', first + 1);
  return close == none ? none : close + 1;
}

/// Whether `byte` is in the set `[…]`.
bool in_set(std::string_view set, char byte) {
  const auto code = static_cast<unsigned char>(byte);
  set = set.substr(1, set.size() - 2);
  const bool inverted = set.starts_with('!');
  if (inverted) set.remove_prefix(1);
  bool found = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    const auto low = static_cast<unsigned char>(set[i]);
    auto high = low;
    if (i + 2 < set.size() && set[i + 1] == '-') {
      high = static_cast<unsigned char>(set[i + 2]);
      i += 2;
    }
    found = found || (code >= low && code <= high);
  }
  return found != inverted;
}

/// Behind the part of `pattern` at `at` that describes `byte`; none when it does not.
std::size_t step(std::string_view pattern, std::size_t at, char byte) {
  if (at >= pattern.size()) return none;
  switch (pattern[at]) {
    case '?':
      return at + 1;
    case '[':
      if (const std::size_t end = set_end(pattern, at); end != none)
        return in_set(pattern.substr(at, end - at), byte) ? end : none;
      break;
    case '\\':
      if (at + 1 < pattern.size()) return pattern[at + 1] == byte ? at + 2 : none;
      break;
    default:
      break;
  }
  return pattern[at] == byte ? at + 1 : none;
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view text) {
  std::size_t at = 0;
  std::size_t in_text = 0;
  std::size_t star = none;  // behind the last `*`: only that one needs to be tried again
  std::size_t star_text = 0;
  while (in_text < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = ++at;
      star_text = in_text;
    } else if (const std::size_t next = step(pattern, at, text[in_text]); next != none) {
      at = next;
      ++in_text;
    } else if (star != none) {
      at = star;
      in_text = ++star_text;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

namespace {

constexpr std::size_t compared_bytes = 128;  // of a name: the work grows with the square

}  // namespace

bool is_listed(const std::vector<std::string>& globs, std::string_view text) {
  if (globs.empty()) return true;
  bool found = globs.front().starts_with('!');
  for (const std::string_view glob : globs) {
    const bool leaves_out = glob.starts_with('!');
    if (glob_matches(glob.substr(leaves_out ? 1 : 0), text)) found = !leaves_out;
  }
  return found;
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

namespace {

/// %XX resolved; nullopt: not followed by two hex digits.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned char byte = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || error != std::errc() || end != digits.data() + 2) return std::nullopt;
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

}  // namespace

std::optional<std::vector<std::pair<std::string, std::string>>> parse_baggage(
    std::string_view text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view one = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (one.empty()) continue;
    const std::size_t equals = one.find('=');
    const std::string_view name = trimmed(one.substr(0, equals));
    auto value = percent_decoded(equals == one.npos ? "%" : trimmed(one.substr(equals + 1)));
    if (name.empty() || !value) return std::nullopt;
    pairs.emplace_back(name, std::move(*value));
  }
  return pairs;
}

std::size_t spelling_distance(std::string_view one, std::string_view other) {
  one = one.substr(0, compared_bytes);
  other = other.substr(0, compared_bytes);
  std::vector<std::size_t> before, last, row(other.size() + 1);  // for the first i - 2, i - 1 and i
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= one.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (std::size_t k = 1; k <= other.size(); ++k) {
      const std::size_t replaced = last[k - 1] + (one[i - 1] == other[k - 1] ? 0 : 1);
      row[k] = std::min({replaced, last[k] + 1, row[k - 1] + 1});
      if (i > 1 && k > 1 && one[i - 1] == other[k - 2] && one[i - 2] == other[k - 1])
        row[k] = std::min(row[k], before[k - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace vitrine
