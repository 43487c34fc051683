// SHA-256 (FIPS 180-4): names files by what they hold; keyed (RFC 2104), values that are not shown.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace vitrine {

std::array<std::uint8_t, 32> sha256(std::span<const std::byte> bytes);

/// HMAC-SHA-256.
std::array<std::uint8_t, 32> hmac_sha256(std::span<const std::byte> key,
                                         std::span<const std::byte> message);

}  // namespace vitrine
