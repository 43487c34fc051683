#include "agent/metrics.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string_view>

namespace vitrine::agent {
namespace {

struct Counter {
  std::string_view name, help;
  std::uint64_t value;
};

double seconds(std::uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

/// The second number of /proc/self/statm (proc_pid_statm(5)).
std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

void add(AgentCounts& to, const ProfileCounts& more) {
  to.profiles.profiles += more.profiles;
  to.profiles.samples += more.samples;
  to.profiles.lost += more.lost;
  to.profiles.unnamed += more.unnamed;
  to.profiles.unwritten += more.unwritten;
}

void add(AgentCounts& to, const exporter::ExportCounters& more) {
  exporter::ExportCounters& sum = to.sending;
  sum.sent += more.sent;
  sum.retried += more.retried;
  sum.split += more.split;
  sum.refused += more.refused;
  sum.rejected += more.rejected;
  sum.overflowed += more.overflowed;
  sum.skipped += more.skipped;
  sum.waiting = more.waiting;
  sum.unwritten = more.unwritten;
  sum.waiting_bytes = more.waiting_bytes;
  sum.oldest_ns = more.oldest_ns;
}

std::string metrics_text(const AgentCounts& counts, std::uint64_t now_ns) {
  const ProfileCounts& profiles = counts.profiles;
  const exporter::ExportCounters& sending = counts.sending;
  const Counter counters[] = {
      {"vitrine_agent_profiles", "Profiles with samples", profiles.profiles},
      {"vitrine_agent_samples", "Samples in profiles", profiles.samples},
      {"vitrine_agent_lost_samples", "Samples without room in a buffer or a profile",
       profiles.lost},
      {"vitrine_agent_unnamed_locations", "Locations that were not named in time",
       profiles.unnamed},
      {"vitrine_agent_unwritten_files", "Files that could not be written", profiles.unwritten},
      {"vitrine_agent_sent_requests", "Requests that the engine accepted", sending.sent},
      {"vitrine_agent_retried_requests", "Tries that failed and are repeated", sending.retried},
      {"vitrine_agent_split_requests", "Requests that were too large, sent in parts",
       sending.split},
      {"vitrine_agent_refused_requests", "Requests that the engine rejected, dropped",
       sending.refused},
      {"vitrine_agent_rejected_profiles", "Profiles rejected in accepted requests",
       sending.rejected},
      {"vitrine_agent_dropped_requests", "Requests dropped because the spool was full",
       sending.overflowed},
      {"vitrine_agent_reloads", "Configurations that took effect", counts.reloads},
      {"vitrine_agent_failed_reloads", "Configurations that were refused", counts.failed_reloads},
  };
  std::string text;
  const auto out = std::back_inserter(text);
  for (const Counter& one : counters)
    fmt::format_to(out, "# TYPE {0} counter\n# HELP {0} {1}.\n{0}_total {2}\n", one.name, one.help,
                   one.value);
  const auto gauge = [&](std::string_view name, std::string_view unit, std::string_view help,
                         auto value) {
    fmt::format_to(out, "# TYPE {} gauge\n", name);
    if (!unit.empty()) fmt::format_to(out, "# UNIT {} {}\n", name, unit);
    fmt::format_to(out, "# HELP {0} {1}.\n{0} {2}\n", name, help, value);
  };
  const std::uint64_t age_ns =
      sending.oldest_ns == 0 || now_ns < sending.oldest_ns ? 0 : now_ns - sending.oldest_ns;
  gauge("vitrine_agent_spool_requests", "", "Requests that wait to be sent", sending.waiting);
  gauge("vitrine_agent_spool_bytes", "bytes", "Size of the requests that wait",
        sending.waiting_bytes);
  gauge("vitrine_agent_spool_age_seconds", "seconds", "Age of the oldest request that waits",
        seconds(age_ns));
  gauge("vitrine_agent_up", "", "1 while profiles are taken", 1);
  gauge("process_resident_memory_bytes", "bytes", "Memory of the agent", resident_bytes());
  gauge("process_start_time_seconds", "seconds", "Unix time of the start",
        seconds(counts.started_ns));
  fmt::format_to(out,
                 "# TYPE process_cpu_seconds counter\n# UNIT process_cpu_seconds seconds\n"
                 "# HELP process_cpu_seconds CPU time of the agent.\n"
                 "process_cpu_seconds_total {}\n# EOF\n",
                 cpu_seconds());
  return text;
}

}  // namespace vitrine::agent
