#include "target/cpu_events.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <thread>

#include "base/limits.hpp"
#include "target/proc_file.hpp"

namespace vitrine::target {
namespace {

constexpr std::size_t max_list = 64 * 1024;
constexpr int max_cpus = 64 * 1024;

/// As the kernel prints it: "0-3,8".
std::vector<int> parse_cpus(std::string_view list) {
  std::vector<int> cpus;
  const char *at = list.data(), *const end = at + list.size();
  while (at < end) {
    int first = 0;
    auto [next, error] = std::from_chars(at, end, first);
    if (error != std::errc()) break;
    int last = first;
    if (next < end && *next == '-') {
      const auto range = std::from_chars(next + 1, end, last);
      if (range.ec != std::errc()) break;
      next = range.ptr;
    }
    for (int cpu = first; cpu <= std::min(last, max_cpus); ++cpu) cpus.push_back(cpu);
    at = next < end && *next == ',' ? next + 1 : end;
  }
  return cpus;
}

}  // namespace

Result<void> require_sampling_frequency(unsigned frequency) {
  if (frequency != 0 && frequency <= limits::sampling_frequency) return {};
  return fail(ErrorCode::usage, "the sampling frequency must be between 1 and " +
                                    std::to_string(limits::sampling_frequency) + " Hz");
}

std::vector<int> online_cpus() {
  std::vector<int> cpus;
  if (const auto list = read_file_at(AT_FDCWD, "/sys/devices/system/cpu/online", max_list))
    cpus = parse_cpus({list->data(), list->size()});
  if (!cpus.empty()) return cpus;
  const long all = ::sysconf(_SC_NPROCESSORS_CONF);
  for (int cpu = 0; cpu < all; ++cpu) cpus.push_back(cpu);
  return cpus;
}

std::uint64_t CpuEvent::enabled_ns() const {
  struct {
    std::uint64_t count, enabled_ns;
  } now{};
  return ::read(file_.get(), &now, sizeof now) == sizeof now ? now.enabled_ns : 0;
}

bool CpuEvent::is_in_force() const {
  constexpr std::chrono::milliseconds coarsest_clock{10};
  const std::uint64_t first = enabled_ns();
  if (enabled_ns() != first) return true;
  std::this_thread::sleep_for(coarsest_clock);
  return enabled_ns() != first;
}

}  // namespace vitrine::target
