// The ways to profile: once, at intervals, or as a table that refreshes.
#pragma once

#include "cli/profile/request.hpp"
#include "cli/profile/sending.hpp"
#include "observe/profile/profiling.hpp"

namespace vitrine::cli {

// Each goes on to the end of what was asked for, or ^C, and returns an ExitCode. `sender` may be
// null.
int profile_once(observe::Profiling& profiling, const ProfileRequest& request,
                 ProfileSender* sender);
int profile_continuously(observe::Profiling& profiling, const ProfileRequest& request,
                         ProfileSender* sender);
int profile_watching(observe::Profiling& profiling, const ProfileRequest& request);

}  // namespace vitrine::cli
