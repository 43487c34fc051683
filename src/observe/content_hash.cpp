#include "observe/content_hash.hpp"

#include <algorithm>
#include <vector>

#include "base/hex.hpp"
#include "base/sha256.hpp"

namespace vitrine::observe {

std::string content_hash(Memory& file, std::uint64_t size) {
  constexpr std::uint64_t end_bytes = 4096;
  constexpr std::size_t hash_bytes = 16;
  const std::uint64_t part = std::min(size, end_bytes);
  std::vector<std::byte> bytes(static_cast<std::size_t>(2 * part + sizeof size));
  const auto first = std::span(bytes).first(static_cast<std::size_t>(part));
  const auto last = std::span(bytes).subspan(first.size(), first.size());
  if (file.read_some(0, first) != first.size() || file.read_some(size - part, last) != last.size())
    return {};
  for (std::size_t i = 0; i < sizeof size; ++i)
    bytes[bytes.size() - 1 - i] = static_cast<std::byte>(size >> 8 * i & 0xff);
  const auto digest = sha256(bytes);
  return hex_text(std::span(digest).first(hash_bytes));
}

}  // namespace vitrine::observe
