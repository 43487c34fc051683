#include "query/string_hash.hpp"

namespace vitrine::query {
namespace {

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    word |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return word;
}

}  // namespace

std::uint64_t keyed_hash(const vitrine_hash_key& key, std::string_view bytes) {
  vitrine_hash_state state{};
  vitrine_hash_begin(&state, &key);
  const std::size_t length = bytes.size();
  for (; bytes.size() >= 8; bytes.remove_prefix(8))
    vitrine_hash_word(&state, little_endian(bytes.substr(0, 8)));
  return vitrine_hash_end(&state, little_endian(bytes), length);
}

std::uint64_t string_hash(const vitrine_hash_key& key, std::string_view bytes) {
  const std::uint64_t hash = keyed_hash(key, bytes.substr(0, VITRINE_NAME_BYTES));
  return hash == 0 ? 1 : hash;
}

}  // namespace vitrine::query
