#include "base/json.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace vitrine {
namespace {

constexpr std::int64_t largest_exact = std::int64_t{1} << 53;  // integer that any reader has

}  // namespace

std::string json_text(const Json& json, int indent) {
  std::string text = json.dump(indent, ' ', false, Json::error_handler_t::replace);
  const auto is_plain = [](char c) { return static_cast<unsigned char>(c) < 0x7f; };
  if (std::all_of(text.begin(), text.end(), is_plain)) return text;  // most are
  std::string out;
  out.reserve(text.size());
  for (std::string_view rest = text; !rest.empty();) {
    const CodePoint point = first_code_point(rest).value_or(CodePoint{0, 1});
    if (is_plain(rest[0]) || !needs_escaping(point.value)) {
      out += rest.substr(0, point.bytes);
    } else if (point.value < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(point.value));
    } else {
      const auto above = static_cast<std::uint32_t>(point.value) - 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (above >> 10), 0xdc00 + (above & 0x3ff));
    }
    rest.remove_prefix(point.bytes);
  }
  return out;
}

Json json_bytes(std::string_view bytes) {
  if (is_utf8(bytes)) return bytes;
  return json_base64(bytes);
}

Json json_base64(std::string_view bytes) {
  return {{"base64", base64_text(bytes)}};
}

Json json_integer(std::int64_t number) {
  if (number > largest_exact || number < -largest_exact) return std::to_string(number);
  return number;
}

Json json_integer(std::uint64_t number) {
  if (number > static_cast<std::uint64_t>(largest_exact)) return std::to_string(number);
  return number;
}

}  // namespace vitrine
