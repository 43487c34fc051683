#include <gtest/gtest.h>

#include "base/text.hpp"

namespace vitrine {
namespace {

TEST(Hex, HasTwoDigitsForEachByte) {
  const std::array<std::uint8_t, 4> bytes{0x00, 0x0f, 0xa0, 0xff};
  EXPECT_EQ(hex_text(bytes), "000fa0ff");
  EXPECT_EQ(hex_text(std::as_bytes(std::span(bytes)), " "), "00 0f a0 ff");
  EXPECT_EQ(hex_text(std::span<const std::byte>()), "");
}

TEST(Hex, IsReadAsItIsWritten) {
  std::array<std::uint8_t, 256> all{}, read{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint8_t>(i);
  ASSERT_TRUE(parse_hex(hex_text(all), read));
  EXPECT_EQ(read, all);
}

TEST(Hex, RefusesAnythingElse) {
  std::array<std::uint8_t, 2> read{};
  EXPECT_TRUE(parse_hex("0a1b", read));
  for (const char* text : {"", "0a1", "0a1b2", "0A1B", "0a1g", "0x1b", " a1b", "0a1b "}) {
    read = {1, 1};
    EXPECT_FALSE(parse_hex(text, read)) << text;
    EXPECT_EQ(read, (std::array<std::uint8_t, 2>{})) << text;
  }
}

// The test vectors of RFC 4648, and bytes of both ends.
TEST(Base64, IsReadAsItIsWritten) {
  const std::pair<std::string_view, std::string_view> pairs[]{{"", ""},
                                                              {"f", "Zg=="},
                                                              {"fo", "Zm8="},
                                                              {"foo", "Zm9v"},
                                                              {"foob", "Zm9vYg=="},
                                                              {"fooba", "Zm9vYmE="},
                                                              {"foobar", "Zm9vYmFy"},
                                                              {"\xff\xfb", "//s="}};
  for (const auto& [bytes, text] : pairs) {
    EXPECT_EQ(base64_text(bytes), text);
    EXPECT_EQ(base64_bytes(text), bytes);
    EXPECT_EQ(base64_bytes(text.substr(0, text.find('='))), bytes);
  }
  EXPECT_EQ(base64_bytes("Zm9v\nYg"), "foo");
}

TEST(Id, IsNotZeros) {
  EXPECT_FALSE(is_id({}));
  EXPECT_FALSE(is_id(std::array<std::uint8_t, 8>{}));
  EXPECT_TRUE(is_id(std::array<std::uint8_t, 8>{0, 0, 0, 0, 0, 0, 0, 1}));
}

}  // namespace
}  // namespace vitrine
