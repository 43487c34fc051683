// FNV-1a, for names that must be the same in every build of the same source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace vitrine::usdt {

inline constexpr std::uint64_t hash_start = 0xcbf29ce484222325;

inline std::uint64_t hash(std::span<const std::byte> bytes, std::uint64_t from = hash_start) {
  for (const std::byte one : bytes) from = (from ^ static_cast<std::uint64_t>(one)) * 0x100000001b3;
  return from;
}

inline std::uint64_t hash(std::string_view text, std::uint64_t from = hash_start) {
  return hash(std::as_bytes(std::span(text)), from);
}

}  // namespace vitrine::usdt
