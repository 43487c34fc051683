// What the agent counts of itself, as OpenMetrics text
// (https://prometheus.io/docs/specs/om/open_metrics_spec/).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "agent/continuous.hpp"
#include "export/exporter.hpp"

namespace vitrine::agent {

struct AgentCounts {
  ProfileCounts profiles;
  exporter::ExportCounters sending;
  std::uint64_t reloads = 0;
  std::uint64_t failed_reloads = 0;
  std::uint64_t started_ns = 0;  ///< Unix time
};

/// Adds what counts up; what waits is that of `more`.
void add(AgentCounts& to, const ProfileCounts& more);
void add(AgentCounts& to, const exporter::ExportCounters& more);

/// Without labels, and with what the process itself takes (CPU time, memory). `now_ns`: Unix time.
std::string metrics_text(const AgentCounts& counts, std::uint64_t now_ns);

}  // namespace vitrine::agent
