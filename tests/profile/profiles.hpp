// Profiles to encode: one by hand whose every field is known, and a large one.
#pragma once

#include "profile/profile.hpp"

namespace vitrine::test {

/// Two processes, both measures, kernel and inlined frames, labels of every awkward kind, a trace,
/// stacks that are whole, truncated and incomplete; losses and problems. Every table has entries
/// that no sample uses, too.
profile::Profile small_profile();

/// `samples` on-CPU and off-CPU samples over `stacks` stacks, by tenant and route.
profile::Profile large_profile(std::size_t samples, std::size_t stacks);

inline constexpr std::uint64_t start_ns = 1'790'000'000'000'000'000;  // of the small profile
inline constexpr std::uint64_t tick_ns = 10'101'010;                  // at 99 Hz

}  // namespace vitrine::test
