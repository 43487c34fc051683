// What the options of `vitrine profile` ask of the library.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "cli/profile/request.hpp"

namespace vitrine::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

nanoseconds resolution_of(const std::string& words) {
  CLI::App app;
  ProfileRequest request;
  request.define(app);
  app.parse("--all " + words);
  const auto taken = request.take();
  EXPECT_TRUE(taken) << words;
  return request.options.time_resolution;
}

TEST(ProfileRequest, AsksForTimesWhereAnOutputShowsThem) {
  const nanoseconds usual = observe::ProfilingOptions().time_resolution;
  for (const std::string file : {"x.html", "x.ndjson"})
    EXPECT_EQ(resolution_of("--duration 8s -o " + file), usual) << file;
  EXPECT_EQ(resolution_of("--duration 8s -o x.pb.gz -o x.html"), usual);
  EXPECT_EQ(resolution_of("--duration 8s -o x.pb.gz"), milliseconds(2000));
  EXPECT_EQ(resolution_of("-o x.folded --duration 1h"), milliseconds(2500));
  EXPECT_EQ(resolution_of("--duration 100ms -o x.pb.gz"), usual);
  EXPECT_EQ(resolution_of("--continuous 60s -o x-%t.pb.gz"), milliseconds(15'000));
}

}  // namespace
}  // namespace vitrine::cli
