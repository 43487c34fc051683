#include "base/redaction.hpp"

#include <algorithm>
#include <span>

#include "base/glob.hpp"
#include "base/hex.hpp"
#include "base/sha256.hpp"

namespace vitrine {
namespace {

constexpr std::size_t kept_bytes = 8;  // of a hash: short enough for a column

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

bool Redaction::matches(std::string_view name) const {
  return std::any_of(patterns_.begin(), patterns_.end(),
                     [&](const std::string& pattern) { return glob_matches(pattern, name); });
}

bool Redaction::covers_label(std::string_view key) const {
  return any() && (matches(key) || matches("label." + std::string(key)));
}

bool Redaction::covers_attribute(std::string_view key) const {
  return matches(key);
}

bool Redaction::covers_argument(std::size_t number, std::string_view name) const {
  return any() && (matches("arg" + std::to_string(number)) ||
                   (!name.empty() && (matches(name) || matches("arg." + std::string(name)))));
}

std::string Redaction::replacement(std::string_view value) const {
  const auto hash = hmac_sha256(bytes_of(secret_), bytes_of(value));
  return "redacted:" + hex_text(std::span(hash).first(kept_bytes));
}

}  // namespace vitrine
