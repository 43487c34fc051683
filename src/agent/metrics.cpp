#include "agent/metrics.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string_view>
#include <utility>

namespace vitrine::agent {
namespace {

using telemetry::Metric;
using telemetry::MetricKind;

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

std::vector<Metric> own_metrics(const AgentCounts& counts, std::uint64_t now_ns) {
  const ProfileCounts& profiles = counts.profiles;
  const exporter::ExportCounters& sending = counts.sending;
  std::vector<Metric> metrics;
  const auto count = [&](std::string_view name, std::string_view description, std::uint64_t value) {
    metrics.push_back(telemetry::plain_metric(MetricKind::counter, name, value, description));
  };
  const auto gauge = [&](std::string_view name, std::string_view description, std::uint64_t value,
                         std::string_view unit = "1") {
    metrics.push_back(telemetry::plain_metric(MetricKind::gauge, name, value, description, unit));
  };
  const auto add_seconds = [&](MetricKind kind, std::string_view name, double value,
                               std::string_view description) {
    Metric metric = telemetry::plain_metric(kind, name, 0, description, "s");
    metric.points.front().value = value;
    metric.points.front().text = fmt::format("{}", value);
    metrics.push_back(std::move(metric));
  };
  count("vitrine_agent_profiles", "Profiles with samples.", profiles.profiles);
  count("vitrine_agent_samples", "Samples in profiles.", profiles.samples);
  count("vitrine_agent_lost_samples", "Samples without room in a buffer or a profile.",
        profiles.lost);
  count("vitrine_agent_unnamed_locations", "Locations that were not named in time.",
        profiles.unnamed);
  count("vitrine_agent_unwritten_files", "Files that could not be written.", profiles.unwritten);
  count("vitrine_agent_sent_requests", "Requests that the engine accepted.", sending.sent);
  count("vitrine_agent_retried_requests", "Tries that failed and are repeated.", sending.retried);
  count("vitrine_agent_split_requests", "Requests that were too large, sent in parts.",
        sending.split);
  count("vitrine_agent_refused_requests", "Requests that the engine rejected, dropped.",
        sending.refused);
  count("vitrine_agent_rejected_profiles",
        "Profiles, data points, spans and log records rejected in accepted requests.",
        sending.rejected);
  count("vitrine_agent_dropped_requests", "Requests dropped because the spool was full.",
        sending.overflowed);
  count("vitrine_agent_reloads", "Configurations that took effect.", counts.reloads);
  count("vitrine_agent_failed_reloads", "Configurations that were refused.", counts.failed_reloads);
  const std::uint64_t age_ns =
      sending.oldest_ns == 0 || now_ns < sending.oldest_ns ? 0 : now_ns - sending.oldest_ns;
  gauge("vitrine_agent_spool_requests", "Requests that wait to be sent.", sending.waiting);
  gauge("vitrine_agent_spool_bytes", "Size of the requests that wait.", sending.waiting_bytes,
        "By");
  add_seconds(MetricKind::gauge, "vitrine_agent_spool_age_seconds", seconds(age_ns),
              "Age of the oldest request that waits.");
  gauge("vitrine_agent_up", "1 while profiles are taken.", counts.is_up ? 1 : 0);
  gauge("process_resident_memory_bytes", "Memory of the agent.", resident_bytes(), "By");
  add_seconds(MetricKind::gauge, "process_start_time_seconds", seconds(counts.started_ns),
              "Unix time of the start.");
  add_seconds(MetricKind::counter, "process_cpu_seconds", cpu_seconds(), "CPU time of the agent.");
  return metrics;
}

}  // namespace vitrine::agent
