// Profiles, as decoders of others see them: the same totals by label in every encoding.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "profile/encoded_file.hpp"
#include "profile/profiles.hpp"
#include "profile/select.hpp"
#include "support/child.hpp"

namespace vitrine::profile {
namespace {

using Totals = std::map<std::string, std::array<std::uint64_t, 2>>;  // on and off the CPU

Totals expected(const Profile& profile) {
  Totals totals;
  for (const TopRow& row : top(profile, {"tenant"}))
    totals[row.values[0]] = {row.on_cpu_ns, row.off_cpu_ns};
  return totals;
}

Totals decoded(const Profile& profile, Encoding encoding, const EncodeOptions& options = {}) {
  const test::EncodedFile file(profile, encoding, options);
  const auto done =
      test::run({"node", NPM_DIR "/profile_totals.js", std::string(name_of(encoding)), file.path()},
                {}, std::chrono::minutes(3));
  EXPECT_EQ(done.status, 0) << "is it installed (npm ci in tests/npm)? " << done.err;
  return done.status != 0 ? Totals{} : nlohmann::json::parse(done.out).get<Totals>();
}

/// The most that rounding each stack to microseconds can make.
void expect_near(const Totals& found, const Totals& wanted, std::uint64_t ns) {
  ASSERT_EQ(found.size(), wanted.size());
  for (const auto& [tenant, values] : wanted)
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_NEAR(static_cast<double>(found.at(tenant)[i]), static_cast<double>(values[i]),
                  static_cast<double>(ns))
          << tenant;
}

TEST(NpmProfile, SmallProfileIsTheSameInEveryEncoding) {
  const Profile profile = test::small_profile();
  const EncodeOptions by_tenant{.group_by = {"tenant"}};
  const Totals wanted = expected(profile);
  EXPECT_EQ(decoded(profile, Encoding::pprof), wanted);
  EXPECT_EQ(decoded(profile, Encoding::otlp), wanted);
  EXPECT_EQ(decoded(profile, Encoding::otlp, {.otlp_compact = true}), wanted);
  EXPECT_EQ(decoded(profile, Encoding::json), wanted);
  EXPECT_EQ(decoded(profile, Encoding::speedscope, by_tenant), wanted);
  expect_near(decoded(profile, Encoding::folded, by_tenant), wanted, 5 * 500);
}

TEST(NpmProfile, LargeProfileIsTheSameInEveryEncoding) {
  const Profile profile = test::large_profile(200'000, 10'000);
  const EncodeOptions by_tenant{.group_by = {"tenant"}};
  const Totals wanted = expected(profile);
  EXPECT_EQ(decoded(profile, Encoding::pprof), wanted);
  EXPECT_EQ(decoded(profile, Encoding::otlp), wanted);
  EXPECT_EQ(decoded(profile, Encoding::speedscope, by_tenant), wanted);
  expect_near(decoded(profile, Encoding::folded, by_tenant), wanted, 20'000 * 500);
}

}  // namespace
}  // namespace vitrine::profile
