#include "bpf/packed_record.hpp"

#include <algorithm>
#include <cstring>

namespace vitrine::bpf {
namespace {

constexpr std::size_t packed_word = sizeof(std::uint64_t);

constexpr std::size_t packed_words(std::size_t bytes) {
  return (bytes + packed_word - 1) / packed_word;
}

/// Writes which bytes of `difference` are not zero, and those.
std::byte* pack_difference(std::uint64_t difference, std::byte* at) {
  std::byte* const mask = at++;
  unsigned bits = 0;
  for (unsigned i = 0; i < packed_word; ++i, difference >>= 8) {
    *at = static_cast<std::byte>(difference & 0xff);
    const bool differs = *at != std::byte{0};
    bits |= (differs ? 1U : 0U) << i;
    at += differs ? 1 : 0;
  }
  *mask = static_cast<std::byte>(bits);
  return at;
}

std::uint64_t unpack_difference(const std::byte*& at) {
  const auto bits = std::to_integer<unsigned>(*at++);
  std::uint64_t difference = 0;
  for (unsigned i = 0; i < packed_word; ++i)
    if ((bits >> i & 1U) != 0) difference |= std::to_integer<std::uint64_t>(*at++) << (8 * i);
  return difference;
}

}  // namespace

std::size_t LastRecords::pack(std::span<const std::byte> record, std::uint64_t source,
                              std::byte* into) {
  const auto size = static_cast<std::uint32_t>(record.size());
  const auto place = static_cast<std::uint8_t>(source % sources);
  std::byte* at = into;
  std::memcpy(at, &size, sizeof size);
  at += sizeof size;
  *at++ = std::byte{place};
  if (record.size() > max_bytes) {
    std::memcpy(at, record.data(), record.size());
    return header_bytes + record.size();
  }
  auto& last = (*table_)[place];
  const std::size_t words = packed_words(record.size());
  std::byte* const differing = at;
  const std::size_t bitmap_bytes = (words + 7) / 8;
  std::memset(differing, 0, bitmap_bytes);
  at += bitmap_bytes;
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, record.data() + i * packed_word,
                std::min(packed_word, record.size() - i * packed_word));
    if (word == last[i]) continue;
    differing[i / 8] |= std::byte{1} << (i % 8);
    at = pack_difference(word ^ last[i], at);
    last[i] = word;
  }
  return static_cast<std::size_t>(at - into);
}

std::span<const std::byte> LastRecords::unpack(std::span<const std::byte>& packed) {
  std::uint32_t size = 0;
  const std::byte* at = packed.data();
  std::memcpy(&size, at, sizeof size);
  at += sizeof size;
  const auto place = std::to_integer<std::size_t>(*at++);
  const auto end_at = [&](const std::byte* end) {
    packed = packed.subspan(static_cast<std::size_t>(end - packed.data()));
  };
  if (size > max_bytes) {
    const std::span record(at, size);
    end_at(at + size);
    return record;
  }
  auto& last = (*table_)[place];
  const std::size_t words = packed_words(size);
  const std::byte* const differing = at;
  at += (words + 7) / 8;
  for (std::size_t i = 0; i < words; ++i)
    if ((differing[i / 8] >> (i % 8) & std::byte{1}) != std::byte{0})
      last[i] ^= unpack_difference(at);
  end_at(at);
  return {reinterpret_cast<const std::byte*>(last.data()), size};
}

}  // namespace vitrine::bpf
