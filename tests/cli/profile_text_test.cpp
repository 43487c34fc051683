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

}  // namespace
}  // namespace vitrine::cli
