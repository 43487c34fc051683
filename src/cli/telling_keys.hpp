// Which labels tell most about where the time went.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "profile/profile.hpp"

namespace vitrine::cli {

/// At most `most` keys of labels, the most telling first: those that much of the time has, with
/// several values that share it. A key with another value in almost every sample (an id) tells
/// nothing.
std::vector<std::string> telling_keys(const profile::Profile& profile, std::size_t most);

}  // namespace vitrine::cli
