// %t in the names of files.
#include <gtest/gtest.h>

#include "cli/profile/outputs.hpp"

namespace vitrine::cli {
namespace {

constexpr std::uint64_t time_ns = 1'795'290'019'071'363'829;

TEST(PathPattern, TimeIsUtcToTheMillisecond) {
  EXPECT_EQ(path_at("dir/p-%t.pb.gz", time_ns), "dir/p-20261121T194019.071Z.pb.gz");
  EXPECT_EQ(path_at("%t%t", 0), "19700101T000000.000Z19700101T000000.000Z");
}

TEST(PathPattern, OthersStay) {
  EXPECT_EQ(path_at("a%%t", time_ns), "a%t");
  EXPECT_EQ(path_at("100%", time_ns), "100%");
  EXPECT_EQ(path_at("%p", time_ns), "%p");
}

TEST(PathPattern, KnowsWhetherThereIsOne) {
  EXPECT_TRUE(has_time("a%t"));
  EXPECT_TRUE(has_time("%%%t"));
  EXPECT_FALSE(has_time("a%%t"));
  EXPECT_FALSE(has_time("%"));
  EXPECT_FALSE(has_time(""));
}

}  // namespace
}  // namespace vitrine::cli
