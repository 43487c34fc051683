// SHA-256 (FIPS 180-4): names files by what they hold.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace vitrine {

std::array<std::uint8_t, 32> sha256(std::span<const std::byte> bytes);

}  // namespace vitrine
