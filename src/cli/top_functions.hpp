// Which functions the time was spent in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profile/profile.hpp"

namespace vitrine::cli {

struct FunctionTime {
  std::string name;  ///< of a function; else the file, or "(unknown)"
  std::uint64_t own_ns =
      0;  ///< it was the leaf; of waiting: the innermost that is not the kernel's
  std::uint64_t all_ns = 0;  ///< it was on the stack
};

/// Of the samples of one measure, the most own time first.
std::vector<FunctionTime> top_functions(const profile::Profile& profile, profile::Measure measure);

}  // namespace vitrine::cli
