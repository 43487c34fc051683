#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "query/lexer.hpp"

namespace vitrine::query {
namespace {

constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t unsigned_most = std::numeric_limits<std::uint64_t>::max();

TEST(Number, ComparesAcrossTypes) {
  EXPECT_TRUE(compare(std::int64_t{-1}, unsigned_most) < 0);
  EXPECT_TRUE(compare(unsigned_most, static_cast<double>(unsigned_most)) < 0) << "2^64 - 1, 2^64";
  EXPECT_TRUE(compare(most, static_cast<double>(most)) < 0);
  EXPECT_TRUE(compare(std::int64_t{9007199254740993}, 9007199254740992.0) > 0);
  EXPECT_TRUE(compare(std::int64_t{5}, std::uint64_t{5}) == 0);
  EXPECT_TRUE(compare(std::nan(""), std::int64_t{5}) == std::partial_ordering::unordered);
}

TEST(Number, AddsExactlyWhile64BitsHoldIt) {
  EXPECT_EQ(add(std::int64_t{-3}, std::uint64_t{5}), Number(std::int64_t{2}));
  EXPECT_EQ(add(most, std::int64_t{1}), Number(std::uint64_t{1} << 63));
  EXPECT_EQ(add(unsigned_most, std::int64_t{-1}), Number(unsigned_most - 1));
  EXPECT_EQ(add(unsigned_most, least), Number(most));
  EXPECT_EQ(add(unsigned_most, std::int64_t{1}), Number(0x1p64));
  EXPECT_EQ(add(least, std::int64_t{-1}), Number(-0x1p63)) << "the nearest double";
  EXPECT_EQ(add(std::int64_t{1}, 0.5), Number(1.5));
}

TEST(Number, IsReadFromAllOfAText) {
  EXPECT_EQ(parse_number("0"), Number(std::int64_t{0}));
  EXPECT_EQ(parse_number("-0x10"), Number(std::int64_t{-16}));
  EXPECT_EQ(parse_number("0xffffffffffffffff"), Number(unsigned_most));
  EXPECT_EQ(parse_number("-9223372036854775808"), Number(least));
  EXPECT_EQ(parse_number("-0x8000000000000000"), Number(least));
  EXPECT_EQ(parse_number("18446744073709551616"), Number(0x1p64)) << "no integer of ours";
  EXPECT_EQ(parse_number("1_0.5"), Number(10.5));
  for (const char* wrong : {"", "-", "x", "1x", " 1", "1 ", "0x", "0xg", "+1", "nan", "inf", "_1",
                            "1_", "1__0", ".5", "-0x8000000000000001", "--1", "1e999"})
    EXPECT_FALSE(parse_number(wrong)) << wrong;
  EXPECT_FALSE(parse_number(std::string(65, '1')));
}

TEST(Number, IsWhatAValueSays) {
  EXPECT_EQ(number_of(true), Number(std::int64_t{1}));
  EXPECT_EQ(number_of(probe::PointerValue{16}), Number(std::uint64_t{16}));
  EXPECT_EQ(number_of(probe::EnumeratorValue{-2, "X"}), Number(std::int64_t{-2}));
  EXPECT_EQ(number_of(probe::StringValue{"7", false}), Number(std::int64_t{7}));
  EXPECT_FALSE(number_of(probe::StringValue{"7", true}));
  EXPECT_FALSE(number_of(probe::ValueError{"no"}));
}

}  // namespace
}  // namespace vitrine::query
