#include <gmock/gmock.h>

#include "base/json.hpp"
#include "profile/profiles.hpp"
#include "profile/select.hpp"

namespace vitrine::profile {
namespace {

using test::small_profile;

const std::string secret = "sixteen bytes ok";

TEST(RedactProfile, HidesLabelsAndAttributesByKey) {
  Profile profile = small_profile();
  profile.processes[0].resource = {{"service.name", "shop"}, {"host.name", "here"}};
  const Redaction redaction({"tenant", "service.*"}, secret);
  const Profile hidden = redacted(profile, redaction);
  EXPECT_EQ(value_of(hidden, hidden.samples[0], "tenant"), redaction.replacement("acme"));
  EXPECT_EQ(hidden.processes[0].resource[0].value, redaction.replacement("shop"));
  EXPECT_EQ(hidden.processes[0].resource[1].value, "here");
  EXPECT_EQ(hidden.links, profile.links);
}

TEST(RedactProfile, HiddenIdsAreLabelsAndNoLinks) {
  const Profile profile = small_profile();
  const Redaction redaction({"trace_id"}, secret);
  const Profile hidden = redacted(profile, redaction);
  EXPECT_TRUE(hidden.links.empty());
  for (std::size_t i = 0; i < profile.samples.size(); ++i) {
    const Sample& sample = hidden.samples[i];
    EXPECT_EQ(sample.link, none);
    const auto before = value_of(profile, profile.samples[i], "trace_id");
    const auto after = value_of(hidden, sample, "trace_id");
    EXPECT_EQ(after, before ? std::optional(redaction.replacement(*before)) : std::nullopt);
    EXPECT_EQ(value_of(hidden, sample, "span_id"),
              value_of(profile, profile.samples[i], "span_id"));
    EXPECT_EQ(value_of(hidden, sample, "tenant"), value_of(profile, profile.samples[i], "tenant"));
  }
}

TEST(RedactProfile, OfNothingChangesNothing) {
  const Profile profile = small_profile();
  EXPECT_EQ(redacted(profile, Redaction()).label_sets, profile.label_sets);
}

}  // namespace
}  // namespace vitrine::profile
