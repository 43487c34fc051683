// A profile on a terminal: how much, whose, where.
#pragma once

#include <string>
#include <vector>

#include "cli/text.hpp"
#include "profile/profile.hpp"
#include "profile/select.hpp"

namespace vitrine::cli {

struct ProfileTextOptions {
  bool utf8 = true;
  std::size_t most_rows = 10;  ///< of each table; the others are added up in one
};

/// How many samples of what, and the time they stand for: one line.
std::string profile_head(const profile::Profile& profile, const ProfileTextOptions& options);

/// What got lost or could not be read, a line each; empty: nothing.
std::string profile_losses(const profile::Profile& profile);

/// Time by the values of `keys`: `rows` as profile::top() gives them.
std::string top_text(const std::vector<std::string>& keys, const std::vector<profile::TopRow>& rows,
                     const Style& style, const ProfileTextOptions& options);

/// All of the above, by the label keys that tell most, and the functions with the most time.
std::string profile_summary(const profile::Profile& profile, const Style& style,
                            const ProfileTextOptions& options);

}  // namespace vitrine::cli
