// Redaction: which values must not be shown, and what replaces them. Each kind of decoded
// value has a redacted() beside it: format/redact.hpp, probe/evaluate.hpp, profile/select.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine {

// SHA-256 (FIPS 180-4): names files by what they hold; keyed (RFC 2104), values that are not shown.

std::array<std::uint8_t, 32> sha256(std::span<const std::byte> bytes);

/// HMAC-SHA-256.
std::array<std::uint8_t, 32> hmac_sha256(std::span<const std::byte> key,
                                         std::span<const std::byte> message);

class Redaction {
 public:
  Redaction() = default;  ///< of nothing

  /// `patterns`: globs (base/text.hpp) of keys. `secret`: any bytes; with it, a reader can check
  /// whether a guessed value is the redacted one.
  Redaction(std::vector<std::string> patterns, std::string secret)
      : patterns_(std::move(patterns)), secret_(std::move(secret)) {}

  [[nodiscard]] bool any() const { return !patterns_.empty(); }

  /// By its key: `tenant`, `label.tenant`.
  [[nodiscard]] bool covers_label(std::string_view key) const;
  /// Of the process context, by its key.
  [[nodiscard]] bool covers_attribute(std::string_view key) const;
  /// Of a probe, by its name where it has one, and by its number: `user`, `arg.user`, `arg1`.
  [[nodiscard]] bool covers_argument(std::size_t number, std::string_view name) const;

  /// "redacted:" and 64 bits of the value's HMAC-SHA-256 in hex. The same for the same value; of a
  /// million values two are the same by chance once in some 37 million times.
  [[nodiscard]] std::string replacement(std::string_view value) const;

 private:
  [[nodiscard]] bool matches(std::string_view name) const;

  std::vector<std::string> patterns_;
  std::string secret_;
};

}  // namespace vitrine
