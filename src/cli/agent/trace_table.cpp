#include "cli/agent/trace_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace vitrine::cli {
namespace {

using agent::ValueKind;

constexpr std::array trace_keys{
    AgentKey{{"trace.name", ValueKind::text}, "--name", ""},
    AgentKey{{"trace.file", ValueKind::list}, "--file", "[]"},
    AgentKey{{"trace.probes", ValueKind::list}, "--probe", "[]"},
    AgentKey{{"trace.where", ValueKind::text}, "--where", ""},
    AgentKey{{"trace.count", ValueKind::flag}, "--count", "false"},
    AgentKey{{"trace.sum", ValueKind::text}, "--sum", ""},
    AgentKey{{"trace.hist", ValueKind::text}, "--hist", ""},
    AgentKey{{"trace.latency", ValueKind::list, ','}, "--latency", "[]"},
    AgentKey{{"trace.spans", ValueKind::list, ','}, "--spans", "[]"},
    AgentKey{{"trace.slower", ValueKind::text}, "--slower", ""},
    AgentKey{{"trace.match", ValueKind::text}, "--match", ""},
    AgentKey{{"trace.by", ValueKind::list, ','}, "--by", "[]"},
    AgentKey{{"trace.label_values", ValueKind::number}, "--label-values", "1000"},
    AgentKey{{"trace.exemplars", ValueKind::flag}, "--exemplars", "false"},
    AgentKey{{"trace.show", ValueKind::list, ','}, "--show", "[]"},
    AgentKey{{"trace.stack", ValueKind::flag}, "--stack", "false"},
    AgentKey{{"trace.max_string", ValueKind::number}, "--max-string", "256"},
};

/// Of fires that wait to be read: the agent reads them twenty times a second.
constexpr std::size_t trace_buffer_bytes = std::size_t{4} << 20;

}  // namespace

std::span<const AgentKey> TraceTable::keys() {
  return trace_keys;
}

void TraceTable::define(CLI::App& app) {
  app.add_option("--name", name);
  app.add_option("--file", options.target.files);
  app.add_option("--probe", options.probes);
  query_.define(app);
}

Result<void> TraceTable::take(const Redaction& redaction) {
  options.query = TRY(query_.take(true, redaction));
  options.stacks = query_.stacks();
  label_values = query_.label_values();
  options.resources = signal() != exporter::Signal::metrics;
  options.buffer_bytes = trace_buffer_bytes;
  options.optional = false;
  const bool is_pair =
      options.query.reduction && options.query.reduction->kind == query::ReductionKind::latency;
  if (options.target.files.empty())
    return fail(
        ErrorCode::usage, "[[trace]] has no file",
        "set file = \"/usr/bin/shop\": it is traced in every process that runs or loads it");
  for (const std::string& file : options.target.files)
    if (!file.starts_with('/'))
      return fail(ErrorCode::usage, fmt::format("file: {} is no absolute path", file));
  if (is_pair != options.probes.empty())
    return fail(ErrorCode::usage,
                is_pair ? "probes: latency and spans have their probes themselves"
                        : "[[trace]] has no probes",
                is_pair ? "omit probes" : "set probes = [\"shop:*\"], or latency, or spans");
  if (name.empty()) {
    const query::ReductionQuery* const pair = is_pair ? &*options.query.reduction : nullptr;
    name = pair != nullptr ? pair->start : options.probes.front();
  }
  return {};
}

Result<void> check_together(std::span<const TraceTable> tables) {
  std::set<std::string> names;
  const auto find = [&](query::ReductionKind kind) {
    return std::ranges::find_if(tables, [&](const TraceTable& table) {
      return adds_up(table.options.query) && table.options.query.reduction->kind == kind;
    });
  };
  for (const TraceTable& table : tables)
    if (!names.insert(table.name).second)
      return fail(ErrorCode::usage,
                  fmt::format("{}two [[trace]] have the name {}", table.name_at, table.name),
                  "set name in one of them");
  const auto histogram = find(query::ReductionKind::histogram);
  if (find(query::ReductionKind::sum) != tables.end() && histogram != tables.end())
    return fail(ErrorCode::usage,
                histogram->hist_at +
                    "sum and hist are one metric, which cannot be a summary and a histogram",
                "use hist in all: a histogram has the sum, too");
  return {};
}

}  // namespace vitrine::cli
