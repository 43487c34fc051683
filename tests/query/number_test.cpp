#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "query/lexer.hpp"
#include "query/reduction.hpp"

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

Sum sum_of(std::initializer_list<Number> numbers) {
  Sum sum;
  for (const Number& number : numbers) sum.add(number);
  return sum;
}

TEST(Sum, IsExactInMoreThan64Bits) {
  EXPECT_EQ(sum_of({std::int64_t{-3}, std::uint64_t{5}}).number(), Number(std::int64_t{2}));
  EXPECT_EQ(sum_of({most, std::int64_t{1}}).number(), Number(std::uint64_t{1} << 63));
  EXPECT_EQ(sum_of({unsigned_most, least}).number(), Number(most));
  EXPECT_EQ(sum_of({unsigned_most, std::int64_t{1}}).number(), std::nullopt);
  EXPECT_EQ(sum_of({unsigned_most, std::int64_t{1}}).text(), "18446744073709551616");
  EXPECT_EQ(sum_of({least, std::int64_t{-1}}).text(), "-9223372036854775809");
  EXPECT_EQ(sum_of({least, std::int64_t{-1}, most}).number(), Number(std::int64_t{-2}));
  Sum large;
  for (int i = 0; i < 1000; ++i) large.add(unsigned_most);
  EXPECT_EQ(large.text(), "18446744073709551615000");
  EXPECT_EQ(large, Sum::of_halves(0 - std::uint64_t{1000}, 999));
  EXPECT_EQ(sum_of({least, least}), Sum::of_halves(0, ~std::uint64_t{0}));
  EXPECT_TRUE(compare(large, sum_of({unsigned_most})) > 0);
  EXPECT_TRUE(compare(sum_of({least, least}), sum_of({least})) < 0);
}

TEST(Sum, IsADoubleWithAFraction) {
  EXPECT_EQ(sum_of({std::int64_t{1}, 0.5}).number(), Number(1.5));
  EXPECT_EQ(sum_of({0.5, unsigned_most, unsigned_most}).to_double(), 0x1p65);
  EXPECT_TRUE(compare(sum_of({0.5}), sum_of({std::int64_t{1}})) < 0);
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
  EXPECT_EQ(number_of(probe::EnumeratorValue{-2, "X", true}), Number(UINT64_MAX - 1));
  EXPECT_EQ(number_of(probe::StringValue{"7", false}), Number(std::int64_t{7}));
  EXPECT_FALSE(number_of(probe::StringValue{"7", true}));
  EXPECT_FALSE(number_of(probe::ValueError{"no"}));
}

}  // namespace
}  // namespace vitrine::query
