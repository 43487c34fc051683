// vitrine agent: profiles of the whole machine as a service, by a configuration file.
#include <fmt/format.h>

#include "cli/agent/request.hpp"
#include "cli/agent/run.hpp"
#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "cli/shell/confinement.hpp"
#include "cli/shell/libraries.hpp"
#include "cli/shell/report.hpp"
#include "cli/shell/run.hpp"
#include "observe/doctor.hpp"

namespace vitrine::cli {
namespace {

class AgentCommand : public Command {
 public:
  Manual manual() const override {
    return {
        "agent",
        "profile the machine as a service, by a configuration file",
        {"Takes one profile of the whole machine after another, by label, and sends it to an "
         "engine, writes it to files, or both, as profile --continuous does. FILE is TOML. Each "
         "key is also an option; an option overrides the file. Without FILE, only the options "
         "apply.",
         "--check validates the file and that its files and spool have a directory, prints the "
         "effective configuration with the source of each "
         "value, and ends. The output is a configuration file, too; values of headers are hidden.",
         "SIGHUP reads the file again. A file that is invalid, or cannot take effect, is "
         "reported with line and column, and the previous configuration stays in force. A new one "
         "takes "
         "over without a gap: each sample and each fire of a probe counts once. SIGTERM and SIGINT "
         "send what is left, for at most five seconds, and end "
         "with "
         "exit code 0, or 1 if something is lost. The rest stays in the spool. The agent has ended "
         "25 seconds after the signal, whatever it is at.",
         "--process, --cgroup, --container and --service select processes, by globs: a process "
         "must match each option that is given; !GLOB excludes. A service is the service.name of "
         "the "
         "process context, of OTEL_SERVICE_NAME or of OTEL_RESOURCE_ATTRIBUTES. --filter selects "
         "samples by label.",
         "--listen serves /healthz (200 while samples are taken, else 503) and /metrics (what the "
         "agent samples, loses, sends, retries and spools, as OpenMetrics).",
         "Under systemd the agent reports readiness, reloads, its state and the watchdog's sign of "
         "life (Type=notify). The Debian package has vitrine-agent.service, which reads "
         "/etc/vitrine/agent.toml.",
         "It needs what profile --all needs. CAP_SYS_ADMIN, which perf events take where "
         "kernel.perf_event_paranoid is above 2, and probes before Linux 6.6, is kept for reloads "
         "and for files that are replaced, and is not in effect between them."},
        {{"vitrine agent --check agent.toml", "whether the file is right, and what is in force"},
         {"vitrine agent agent.toml", "the agent, in the foreground"},
         {"vitrine agent --service 'shop*' --export otlp+http://localhost:4318",
          "one service of the machine, without a file"}},
        {"profile", "doctor", "systemctl(1)"}};
  }

  void define(CLI::App& app) override {
    app_ = &app;
    app.add_option("FILE", file_, "Configuration file");
    app.add_flag("--check", check_, "Validate and print the effective configuration, and end");
    request_.define(app);
  }

  Needs needs() const override {
    if (check_) {
      Needs needs = needs_of_reading();
      needs.calls.allow(sandbox::Calls::network);  // of libcurl, as it looks at files of TLS
      return needs;
    }
    Needs needs = needs_of_bpf();
    needs.working = needs.working | capabilities::kernel_names | sandbox::added_for_perf_events();
    // The kernel is asked by libbpf; where that is missing, the start reports it.
    if (load_libraries() && observe::attaching_takes_admin())
      needs.working = needs.working | capabilities::admin;
    needs.setting_up = needs.setting_up | needs.working;
    needs.calls.allow(sandbox::Calls::changing).allow(sandbox::Calls::network);
    return needs;
  }

  Result<int> run() override {
    catch_interrupts();
    end_within(longest_end);
    catch_reloads();
    const auto load = [this] { return configure_agent(file_, given_options(*app_)); };
    auto configuration = TRY(load());
    const auto complete = configuration.request->check_outputs();
    if (!check_) {
      TRY(complete);
      return AgentRun(load, needs()).run(std::move(configuration));
    }
    write_output(configuration.text());
    (void)flush_output();
    TRY(complete);
    TRY(configuration.check_places());
    return exit_done;
  }

 private:
  CLI::App* app_ = nullptr;
  std::string file_;
  bool check_ = false;
  /// What the command line is parsed into: only the options that are given count.
  AgentRequest request_;
};

}  // namespace

std::unique_ptr<Command> make_agent_command() {
  return std::make_unique<AgentCommand>();
}

}  // namespace vitrine::cli
