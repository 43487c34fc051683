// Profiles that tests of the page know the sums of.
#pragma once

#include <optional>
#include <string_view>

#include "profile/encode.hpp"

namespace vitrine::web_test {

struct Made {
  profile::Profile profile;
  profile::EncodeOptions options;
};

/// demo: a service as one would see it; known: small round sums; hostile: names that attack the
/// page; large: 50,000 distinct stacks; empty: no samples. Nothing: no such profile.
std::optional<Made> made(std::string_view name);

}  // namespace vitrine::web_test
