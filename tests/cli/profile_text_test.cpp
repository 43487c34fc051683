// What a profile's summary says of what got lost.
#include <gmock/gmock.h>

#include "cli/profile/text.hpp"

namespace vitrine::cli {
namespace {

TEST(ProfileLosses, AdviseWhatWasNotGiven) {
  profile::Profile profile;
  profile.stacks.push_back({{}, profile::StackEnd::gone});
  profile::Sample sample;
  sample.stack = 0;
  profile.samples.push_back(sample);
  EXPECT_THAT(profile_losses(profile, {}), testing::HasSubstr("with --follow"));
  EXPECT_EQ(profile_losses(profile, {.sees_starts = true}),
            "stacks of ended processes: 1 (they ended before their code was examined)\n");
}

/// With one sample, of a stack that ends so.
profile::Profile ends_with(profile::StackEnd end, std::uint32_t pid = 1) {
  profile::Profile profile;
  profile.processes.push_back({pid, "shop", "/srv/shop", {}});
  profile.stacks.push_back({{}, end});
  profile::Sample sample;
  sample.process = 0;
  sample.stack = 0;
  profile.samples.push_back(sample);
  return profile;
}

TEST(ProfileLosses, AProcessOfAnotherPidNamespaceHasNotEnded) {
  EXPECT_THAT(profile_losses(ends_with(profile::StackEnd::gone), {}), testing::HasSubstr("ended"));
  EXPECT_EQ(profile_losses(ends_with(profile::StackEnd::gone, 0), {}), "");
}

TEST(ProfileLosses, OnlyCodeWithoutRulesIsToBeCompiledWithThem) {
  EXPECT_THAT(profile_losses(ends_with(profile::StackEnd::no_rule), {}),
              testing::HasSubstr("-fasynchronous-unwind-tables"));
  EXPECT_THAT(profile_losses(ends_with(profile::StackEnd::bad), {}),
              testing::StartsWith("invalid stacks: 1 "));
}

}  // namespace
}  // namespace vitrine::cli
