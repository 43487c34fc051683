#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "cli/text.hpp"

namespace vitrine::cli {
namespace {

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

Progress::Progress(std::string what, std::optional<std::chrono::milliseconds> time)
    : what_(printable(what)),
      time_(time),
      terminal_(::isatty(STDERR_FILENO) == 1),
      began_(std::chrono::steady_clock::now()) {}

void Progress::show(std::size_t samples) {
  if (!terminal_) return;
  const double passed = seconds(std::chrono::steady_clock::now() - began_);
  const std::string of = time_ ? fmt::format(" of {:.1f}", seconds(*time_)) : std::string();
  fmt::print(stderr, "\r\x1b[K{}: {:.1f}{} s, {} samples (^C to end)", what_, passed, of, samples);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (std::exchange(shown_, false)) fmt::print(stderr, "\r\x1b[K");
}

}  // namespace vitrine::cli
