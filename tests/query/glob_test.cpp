#include <gtest/gtest.h>

#include <string>

#include "base/text.hpp"

namespace vitrine::query {
namespace {

TEST(Glob, Matches) {
  EXPECT_TRUE(glob_matches("", ""));
  EXPECT_FALSE(glob_matches("", "a"));
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("a*c", "abbbc"));
  EXPECT_FALSE(glob_matches("a*c", "abbbd"));
  EXPECT_TRUE(glob_matches("*b*b*", "aabab"));
  EXPECT_TRUE(glob_matches("a?c", "abc"));
  EXPECT_FALSE(glob_matches("a?c", "ac"));
  EXPECT_TRUE(glob_matches("[a-c]x", "bx"));
  EXPECT_FALSE(glob_matches("[!a-c]x", "bx"));
  EXPECT_TRUE(glob_matches("[]x]", "]"));
  EXPECT_TRUE(glob_matches("[ab", "[ab")) << "a bracket that never closes is itself";
  EXPECT_TRUE(glob_matches("\\*", "*"));
  EXPECT_FALSE(glob_matches("\\*", "a"));
  EXPECT_TRUE(glob_matches("\\", "\\"));
  EXPECT_TRUE(glob_matches(std::string_view("a\0*", 3), std::string_view("a\0b", 3)));
  EXPECT_TRUE(glob_matches("\xff?", "\xff\xfe")) << "any bytes";
}

TEST(Glob, EndsSoonOnTextsMadeToBeSlow) {
  std::string pattern;
  for (int i = 0; i < 500; ++i) pattern += "a*";
  EXPECT_FALSE(glob_matches(pattern + "b", std::string(16 * 1024, 'a')));
}

}  // namespace
}  // namespace vitrine::query
