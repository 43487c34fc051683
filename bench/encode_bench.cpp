// Encoding: a large profile in each format, of processor time.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <limits>

#include "profile/encode.hpp"
#include "profile/profiles.hpp"

using namespace vitrine;

namespace {

constexpr std::size_t samples = 200'000;
constexpr std::size_t stacks = 10'000;
constexpr int rounds = 5;

double milliseconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

}  // namespace

int main() {
  const profile::Profile large = test::large_profile(samples, stacks);
  fmt::print("{} samples, {} stacks; the best of {} rounds\n", samples, stacks, rounds);
  using profile::Encoding;
  for (const Encoding encoding :
       {Encoding::otlp, Encoding::pprof, Encoding::folded, Encoding::speedscope}) {
    double best = std::numeric_limits<double>::max();
    std::size_t bytes = 0;
    for (int round = 0; round < rounds; ++round) {
      const double start = milliseconds();
      const auto encoded = profile::encode(large, encoding);
      best = std::min(best, milliseconds() - start);
      if (!encoded) return fmt::print(stderr, "{}\n", encoded.error().message), 1;
      bytes = encoded->size();
    }
    fmt::print("{:<12}{:>8.0f} ms{:>10.1f} MB\n", name_of(encoding), best,
               static_cast<double>(bytes) / 1e6);
  }
}
