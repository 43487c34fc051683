// What targets publish, as JSON: bytes are any bytes, and readers have 53 bits of an integer.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace vitrine {

using Json = nlohmann::ordered_json;

/// One JSON text that is safe to show: in it, characters that must not be shown (needs_escaping) are
/// escaped, so that it neither controls a terminal nor has more lines than `indent` (-1: one) gives it.
std::string json_text(const Json& json, int indent = -1);

/// Bytes of a target: a string when they are valid UTF-8, else {"base64": "…"}.
Json json_bytes(std::string_view bytes);

/// {"base64": "…"} of bytes that are no text.
Json json_base64(std::string_view bytes);

/// A number; beyond 2^53, which not every reader has exactly, a string.
Json json_integer(std::int64_t number);
Json json_integer(std::uint64_t number);

}  // namespace vitrine
