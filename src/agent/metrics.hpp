// What the agent counts of itself, as metrics.
#pragma once

#include <cstdint>
#include <vector>

#include "agent/continuous.hpp"
#include "export/exporter.hpp"
#include "telemetry/metrics.hpp"

namespace vitrine::agent {

struct AgentCounts {
  ProfileCounts profiles;
  exporter::ExportCounters sending;
  std::uint64_t reloads = 0;
  std::uint64_t failed_reloads = 0;
  std::uint64_t started_ns = 0;  ///< Unix time
  bool is_up = true;             ///< profiles are taken
};

/// Without labels, and with what the process itself takes (CPU time, memory). `now_ns`: Unix time.
std::vector<telemetry::Metric> own_metrics(const AgentCounts& counts, std::uint64_t now_ns);

}  // namespace vitrine::agent
