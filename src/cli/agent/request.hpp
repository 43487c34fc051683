// What `vitrine agent` is asked for: by a file, by options, or by both. An option is the only
// description of a setting; a key of the file is a word of the command line, and is parsed as one.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/configuration.hpp"
#include "agent/http_server.hpp"
#include "cli/agent/signals.hpp"
#include "cli/agent/trace_table.hpp"
#include "cli/profile/request.hpp"
#include "cli/profile/sending.hpp"
#include "cli/profile/view.hpp"
#include "observe/profile/profiling.hpp"

namespace vitrine::cli {

class AgentRequest {
 public:
  /// The options, each of which has a key.
  void define(CLI::App& app);
  /// Makes the values below from the options. Errors: usage.
  Result<void> take();
  /// That profiles go anywhere. Errors: usage.
  [[nodiscard]] Result<void> check_outputs() const;

  observe::ProfilingOptions options;
  std::chrono::milliseconds every{};
  std::optional<std::chrono::milliseconds> naming;
  ProfileView view;
  SendingOptions sending;
  MetricsOptions metrics;
  std::vector<TraceTable> traces;              ///< as configure_agent() has them
  std::optional<agent::ListenAddress> listen;  ///< nothing: no pages

 private:
  SamplingOptions sampling_;
  std::string interval_;
  std::string listen_;
  std::vector<std::string> trace_tables_;  ///< in TOML; read by given_options()
};

/// The words that options were given, by their names. What was given comes before what a file has.
using GivenOptions = std::map<std::string, std::vector<std::string>>;
/// Of `app`, which has been parsed.
GivenOptions given_options(const CLI::App& app);

/// One setting in force.
struct AgentSetting {
  agent::KnownKey key;
  std::string flag;
  std::vector<std::string> values;  ///< empty: its default
  std::string source;               ///< "agent.toml:3:9", "--freq"; empty: its default
};

struct AgentConfiguration {
  std::vector<AgentSetting> settings;             ///< all that there are
  std::vector<std::vector<AgentSetting>> traces;  ///< of each [[trace]] all that there are
  std::unique_ptr<AgentRequest> request;

  /// As a file of its own, with where each value is from. Headers may hold secrets: only their
  /// names.
  [[nodiscard]] std::string text() const;
  /// Whether files and the spool have directories to be in. Errors: not_found, not_permitted, failed; with line and
  /// column.
  [[nodiscard]] Result<void> check_places() const;
  /// Whether the settings below these tables ("export.") are the same in both.
  [[nodiscard]] bool same(const AgentConfiguration& other,
                          const std::vector<std::string>& tables) const;
};

/// `file`: empty for none. Errors: usage, with line and column where a value of the file is wrong;
/// those of agent::read_configuration.
Result<AgentConfiguration> configure_agent(const std::string& file, const GivenOptions& given);

}  // namespace vitrine::cli
