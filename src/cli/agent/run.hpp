// The agent at work: one profile after another, until SIGTERM; SIGHUP reads the configuration
// again.
//
// A reload opens the new sampling while the old one goes on. Then the old one ends, and the new one drops
// what it has sampled so far: nothing is missed or counted twice, and a configuration that cannot be put in
// force leaves the old one as it is. A thread of its
// own opens the new one, as that may take seconds; until then it reads what is in force, which only
// hand_over() changes.
//
// Perf events need CAP_SYS_ADMIN where kernel.perf_event_paranoid is above 2. The agent keeps it for
// that, but not in effect: it is in effect at the start and while a reload opens the sampling.
// (Executing ourselves again would not give it back, because of no_new_privs, and would lose samples.)
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "agent/continuous.hpp"
#include "agent/http_server.hpp"
#include "agent/metrics.hpp"
#include "agent/sender.hpp"
#include "agent/service_manager.hpp"
#include "cli/agent/request.hpp"
#include "cli/agent/signals.hpp"
#include "cli/shell/confinement.hpp"

namespace vitrine::cli {

class AgentRun final : private agent::ContinuousListener {
 public:
  using Load = std::function<Result<AgentConfiguration>()>;
  AgentRun(Load load, Needs needs) : load_(std::move(load)), needs_(std::move(needs)) {}

  /// Returns an ExitCode.
  int run(AgentConfiguration first);

 private:
  /// One configuration in force.
  struct Session {
    AgentConfiguration configuration;
    std::unique_ptr<observe::Profiling> profiling;
    std::unique_ptr<AgentSignals> signals;         ///< null: those of the session before go on
    std::unique_ptr<agent::ProfileWriter> writer;  // before `profiling`, whose names it takes, ends
    // Of a session that is to begin:
    std::unique_ptr<ProfileSender> sender;  ///< null: none, or it is opened when the old one ends
    std::unique_ptr<agent::HttpServer> server;
    bool replaces_sender = false;
  };

  bool is_over(std::size_t waiting) override;
  void report(const std::vector<std::string>& notes, const std::vector<Error>& errors) override;

  Result<Session> begin(AgentConfiguration configuration);
  Result<Session> prepare(AgentConfiguration configuration);
  Result<std::unique_ptr<agent::HttpServer>> listen(const AgentConfiguration& configuration);
  void begin_writing();
  Result<Session> prepare_reload();
  void begin_reload();
  void end_reload();
  void hand_over();
  void close_sender();
  void close_signals();
  void open_signals();
  void finish_while_polling(const std::function<void()>& finish);
  [[nodiscard]] OwnMetrics own_metrics();
  void open_sender(const AgentConfiguration& configuration, const AgentConfiguration& before);
  int end(int status);
  void publish();
  [[nodiscard]] agent::HttpResponse page(std::string_view path);
  [[nodiscard]] std::string summary() const;
  /// While `busy`, samples of the coming session are taken.
  void poll_while(const std::function<bool()>& busy);

  Load load_;
  Needs needs_;
  sandbox::Capabilities held_back_;
  agent::ServiceManager manager_;
  std::unique_ptr<ProfileSender> sender_;
  std::shared_ptr<AgentSignals> signals_;  ///< changed under the mutex: the pages show it
  std::unique_ptr<agent::HttpServer> server_;
  Session now_;
  std::unique_ptr<Session> next_;
  std::future<Result<Session>> preparing_;  ///< a reload that is under way
  agent::AgentCounts before_;               ///< of senders and writers that are no more
  std::mutex mutex_;                        // of:
  agent::AgentCounts counts_;
  agent::Clock::time_point seen_alive_{};
};

/// From SIGTERM to the end, whatever happens: less than TimeoutStopSec of the service.
inline constexpr std::chrono::seconds longest_end{25};

/// Has SIGHUP ask for a reload, where it would end the command.
void catch_reloads();

}  // namespace vitrine::cli
