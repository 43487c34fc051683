// The ways to profile: once, a profile each interval, or a table that refreshes.
#pragma once

#include "cli/profile_request.hpp"
#include "observe/profiling.hpp"
#include "send/exporter.hpp"

namespace vitrine::cli {

// Each goes on to the end of what was asked for, or ^C, and returns an ExitCode. `exporter` may be
// null.
int profile_once(observe::Profiling& profiling, const ProfileRequest& request,
                 send::Exporter* exporter);
int profile_continuously(observe::Profiling& profiling, const ProfileRequest& request,
                         send::Exporter* exporter);
int profile_watching(observe::Profiling& profiling, const ProfileRequest& request);

}  // namespace vitrine::cli
