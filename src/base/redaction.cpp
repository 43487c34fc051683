#include "base/redaction.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "base/label_keys.hpp"
#include "base/text.hpp"

namespace vitrine {
namespace {

using Word = std::uint32_t;
constexpr std::size_t block_bytes = 64;

constexpr std::array<Word, 64> constants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void add_block(std::array<Word, 8>& state, std::span<const std::byte> block) {
  std::array<Word, 64> w{};
  for (std::size_t i = 0; i < block_bytes; ++i)
    w[i / 4] = w[i / 4] << 8 | std::to_integer<Word>(block[i]);
  for (std::size_t i = 16; i < w.size(); ++i) {
    const Word a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const Word t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                    ((e & f) ^ (~e & g)) + constants[i] + w[i];
    const Word t2 =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const std::array<Word, 8> sum{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += sum[i];
}

}  // namespace

std::array<std::uint8_t, 32> sha256(std::span<const std::byte> bytes) {
  std::array<Word, 8> state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const std::uint64_t bits = std::uint64_t{bytes.size()} * 8;
  for (; bytes.size() >= block_bytes; bytes = bytes.subspan(block_bytes))
    add_block(state, bytes.first(block_bytes));
  // A one, zeros, and the length in bits end the last block, or fill another.
  std::array<std::byte, 2 * block_bytes> rest{};
  std::copy(bytes.begin(), bytes.end(), rest.begin());
  rest[bytes.size()] = std::byte{0x80};
  const std::size_t end = bytes.size() + 9 <= block_bytes ? block_bytes : 2 * block_bytes;
  for (std::size_t i = 0; i < 8; ++i)
    rest[end - 1 - i] = static_cast<std::byte>(bits >> 8 * i & 0xff);
  for (std::size_t at = 0; at < end; at += block_bytes)
    add_block(state, std::span(rest).subspan(at, block_bytes));
  std::array<std::uint8_t, 32> digest{};
  for (std::size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<std::uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

std::array<std::uint8_t, 32> hmac_sha256(std::span<const std::byte> key,
                                         std::span<const std::byte> message) {
  std::array<std::byte, block_bytes> block{};
  if (key.size() > block_bytes) {
    const auto digest = sha256(key);
    std::copy_n(std::as_bytes(std::span(digest)).begin(), digest.size(), block.begin());
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  // The digest of the padded key and `bytes`.
  const auto keyed = [&](std::byte pad, std::span<const std::byte> bytes) {
    std::vector<std::byte> all(block_bytes + bytes.size());
    std::transform(block.begin(), block.end(), all.begin(), [&](std::byte b) { return b ^ pad; });
    std::copy(bytes.begin(), bytes.end(), all.begin() + block_bytes);
    return sha256(all);
  };
  const auto inner = keyed(std::byte{0x36}, message);
  return keyed(std::byte{0x5c}, std::as_bytes(std::span(inner)));
}

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
  return any() && (matches(key) || matches(std::string(renamed_key_prefix) + std::string(key)));
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
