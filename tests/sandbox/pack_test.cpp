// Values come back as they were; bytes that are none are refused, whatever they are.
#include "base/pack.hpp"

#include <gtest/gtest.h>

#include <random>

namespace vitrine {
namespace {

enum class Colour : std::uint8_t { red, green, blue };
constexpr Colour last(Colour) {
  return Colour::blue;
}

struct Inner {
  Colour colour{};
  std::optional<std::string> name;
  bool operator==(const Inner&) const = default;
};

template <pack::Of<Inner> T>
auto fields(T& inner) {
  auto& [colour, name] = inner;
  return std::tie(colour, name);
}

struct Outer {
  std::uint16_t number = 0;
  std::int64_t below = 0;
  bool flag = false;
  std::vector<Inner> inner;
  std::vector<std::byte> bytes;
  std::array<std::uint32_t, 2> pair{};
  Result<std::vector<std::string>> result;
  bool operator==(const Outer&) const = default;
};

template <pack::Of<Outer> T>
auto fields(T& outer) {
  auto& [number, below, flag, inner, bytes, pair, result] = outer;
  return std::tie(number, below, flag, inner, bytes, pair, result);
}

Outer sample() {
  Outer outer;
  outer.number = 65'535;
  outer.below = -1;
  outer.flag = true;
  outer.inner = {{Colour::blue, "sky"}, {Colour::red, std::nullopt}, {Colour::green, ""}};
  outer.bytes = {std::byte{0}, std::byte{255}};
  outer.pair = {7, 8};
  outer.result = std::vector<std::string>{"", std::string("a\0b", 3)};
  return outer;
}

TEST(Pack, ValuesComeBack) {
  Outer outer = sample();
  EXPECT_EQ(pack::unpack<Outer>(pack::pack(outer)).value(), outer);
  outer.result = fail(ErrorCode::limit, "too much", "ask for less");
  EXPECT_EQ(pack::unpack<Outer>(pack::pack(outer)).value(), outer);
}

TEST(Pack, CutOrLongerIsRefused) {
  auto bytes = pack::pack(sample());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(pack::unpack<Outer>(std::span(bytes).first(size))) << size;
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(pack::unpack<Outer>(bytes));
}

TEST(Pack, WhatIsNoneOfItsValuesIsRefused) {
  EXPECT_FALSE(pack::unpack<Colour>(std::vector{std::byte{3}}));
  EXPECT_FALSE(pack::unpack<bool>(std::vector{std::byte{2}}));
  EXPECT_FALSE(pack::unpack<ErrorCode>(pack::pack(-1)));
  EXPECT_TRUE(pack::unpack<Colour>(std::vector{std::byte{2}}));
}

TEST(Pack, CountsBeyondTheBytesCostNothing) {
  const auto many = pack::pack(~std::uint32_t{0});
  EXPECT_FALSE(pack::unpack<std::vector<Inner>>(many));
  EXPECT_FALSE(pack::unpack<std::vector<std::uint64_t>>(many));
  EXPECT_FALSE(pack::unpack<std::string>(many));
}

TEST(Pack, AnyByteMayBeWrong) {
  const auto bytes = pack::pack(sample());
  std::mt19937 random(5);
  std::size_t refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto changed = bytes;
    for (std::size_t n = random() % 4 + 1; n > 0; --n)
      changed[random() % changed.size()] = static_cast<std::byte>(random());
    const auto got = pack::unpack<Outer>(changed);
    if (!got)
      ++refused;
    else
      EXPECT_EQ(pack::pack(*got), changed);  // one value, one spelling
  }
  EXPECT_GT(refused, 0U);
}

}  // namespace
}  // namespace vitrine
