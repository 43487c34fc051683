// ^C: finish the work in hand, detach, print what there is, and end with 130.
#pragma once

#include <atomic>
#include <chrono>

namespace vitrine::cli {

/// Set by the first SIGINT, SIGTERM or SIGHUP after catch_interrupts(); a second one kills as
/// usual.
const std::atomic<bool>& interrupted();

/// Also ignores SIGPIPE: a reader that goes away shows itself as a failed write.
void catch_interrupts();

/// Sleeps until `when` or the first interrupt.
void sleep_until(std::chrono::steady_clock::time_point when);

}  // namespace vitrine::cli
