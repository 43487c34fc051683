// The hash that both sides of a trace have is SipHash-1-3: vectors of other implementations of it.
#include <gtest/gtest.h>

#include <string>

#include "query/compile.hpp"

namespace vitrine::query {
namespace {

/// The key and the messages of the reference's vectors: 00 01 02 …
constexpr vitrine_hash_key reference_key{{0x0706050403020100, 0x0f0e0d0c0b0a0908}};

TEST(StringHash, IsSipHash13) {
  const std::uint64_t expected[] = {0xabac0158050fc4dc, 0xc9f49bf37d57ca93, 0x82cb9b024dc7d44d};
  std::string message;
  for (const std::uint64_t hash : expected) {
    EXPECT_EQ(keyed_hash(reference_key, message), hash) << message.size();
    message.push_back(static_cast<char>(message.size()));
  }
}

TEST(StringHash, DependsOnKeyLengthAndEveryByte) {
  const std::string text = "a text of some length: 31 bytes";
  const std::uint64_t hash = keyed_hash(reference_key, text);
  EXPECT_NE(keyed_hash({{1, 2}}, text), hash);
  EXPECT_NE(keyed_hash(reference_key, text + '\0'), hash);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] ^= 1;
    EXPECT_NE(keyed_hash(reference_key, other), hash) << i;
  }
}

TEST(StringHash, OfLongTextIsOfItsBeginning) {
  const std::string text(VITRINE_NAME_BYTES, 'x');
  EXPECT_EQ(string_hash(reference_key, text + "y"), string_hash(reference_key, text));
  EXPECT_NE(string_hash(reference_key, text.substr(1)), string_hash(reference_key, text));
}

}  // namespace
}  // namespace vitrine::query
