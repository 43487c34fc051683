// A [[trace]] of the agent's configuration: probes of some files, in every process, and what becomes
// of their fires.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "agent/configuration.hpp"
#include "base/redaction.hpp"
#include "base/result.hpp"
#include "cli/trace/query_options.hpp"
#include "export/signal.hpp"
#include "observe/trace/trace.hpp"

namespace vitrine::cli {

/// A key of the configuration, which is an option as well.
struct AgentKey {
  agent::KnownKey key;
  const char* flag;
  const char* usual;  ///< as TOML has it; empty: not set
  bool negated = false;
};

class TraceTable {
 public:
  static std::span<const AgentKey> keys();

  /// An option for each key.
  void define(CLI::App& app);
  /// Makes the values below of the options. Errors: usage.
  Result<void> take(const Redaction& redaction);

  /// All that it is made of: two with the same are the same.
  std::string identity;
  std::string name;  ///< of its metrics, as the label `trace`
  observe::TraceOptions options;
  std::size_t label_values = 0;
  std::string name_at,
      hist_at;  ///< where they are set, for messages: "agent.toml:9:8: trace.name: "

  [[nodiscard]] exporter::Signal signal() const { return signal_of(options.query); }

 private:
  TraceQueryOptions query_;
};

/// That names differ, and that metrics of one name are of one kind. Errors: usage.
Result<void> check_together(std::span<const TraceTable> tables);

}  // namespace vitrine::cli
