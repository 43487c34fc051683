// vitrine profile: where CPU time and waiting go, by label.
#include <fmt/format.h>
#include <sys/resource.h>

#include "cli/command.hpp"
#include "cli/confinement.hpp"
#include "cli/exit_code.hpp"
#include "cli/interrupt.hpp"
#include "cli/profile_request.hpp"
#include "cli/profile_runs.hpp"
#include "cli/report.hpp"
#include "cli/text.hpp"
#include "cli/units.hpp"

namespace vitrine::cli {
namespace {

/// Every process that is looked at costs some descriptors, and so do the files that it has mapped.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // if not, those that are left out are told of
}

class ProfileCommand : public Command {
 public:
  Manual manual() const override {
    return {
        "profile",
        "show where CPU time and waiting go, by label",
        {"Samples what runs (--on-cpu, the default), what waits (--off-cpu), or both, with the "
         "stack of the thread, and with the labels and the trace context that it had in force at "
         "that moment, in every format that the process publishes. Threads, libraries and, with "
         "--follow, processes that come later are included. Nothing is put into the process, and "
         "nothing is left behind, however vitrine ends.",
         "The stack needs no frame pointers: registers and the top of the stack are copied, and "
         "unwound by the call frame information of the files. A stack that is deeper than what "
         "was copied is marked, never dropped. Functions have the names, files, lines and inlined "
         "functions of symbol tables and debug files, and code that was made at run time those of "
         "/tmp/perf-PID.map.",
         "Without -o and --top a summary is shown. With -o a file is written in the format that "
         "its name ends in, whole or not at all; several at once by -o again. Formats: pprof "
         "(.pb.gz), otlp (.otlp), folded (.folded), speedscope (.speedscope.json), json "
         "(.ndjson), and html, one page with flame graphs by label that needs no network.",
         "Samples for which there was no room are counted and told. Off-CPU time counts from when "
         "a thread gave up its CPU until it had one again, with the labels of that time; the time "
         "that threads could have run, but others did, counts only with --preempted.",
         "KEYs are those of labels, or pid, tid, thread, process, cpu, trace_id, span_id. A FILTER "
         "is conditions that must all hold, with commas between them: tenant=acme, step!=idle, "
         "route~^/pay and route!~health with regular expressions.",
         "--export sends to an OpenTelemetry Collector, by OTLP over HTTP. What it does not take "
         "yet is tried again, and waits in memory or in --spool; what is lost is counted and told. "
         "With --continuous a profile is taken again and again, until ^C or SIGTERM, while the "
         "next one is already sampled: into files with their time (UTC) in place of %t in their "
         "names, to a collector, or both."},
        {{"vitrine profile 4242", "ten seconds of process 4242, summed up on the terminal"},
         {"vitrine profile 4242 --duration 30s -o profile.html -o profile.pb.gz",
          "a page to look at, and the same for pprof"},
         {"vitrine profile --exec -- ./server --port 8080", "a program, from its start to its end"},
         {"vitrine profile --all --off-cpu --on-cpu --top process",
          "which processes of the machine run and wait"},
         {"vitrine profile 4242 --top tenant --watch", "tenants, refreshed each second"},
         {"vitrine profile 4242 --filter 'tenant=acme,route~^/rep' --group-by route --format "
          "folded",
          "folded stacks of one tenant, by route"},
         {"vitrine profile --all --continuous 10s --export otlp+http://localhost:4318 --spool "
          "/var/spool/vitrine",
          "the machine, always, to a collector"},
         {"vitrine profile 4242 --continuous 1m -o 'profile-%t.pb.gz'", "a file a minute"}},
        {"labels", "trace", "doctor", "perf(1)"}};
  }

  void define(CLI::App& app) override { request_.define(app); }

  Needs needs() const override {
    Needs needs = needs_of_bpf();
    needs.working = needs.working | capabilities::kernel_names;
    if (!request_.options.command.empty()) {
      needs.calls.allow(confine::Calls::tracing);
      needs.working = needs.working | capabilities::ending;
      needs.launches = true;
    }
    if (request_.writes_files()) needs.calls.allow(confine::Calls::changing);
    if (request_.writes_elsewhere()) needs.working = needs.working | capabilities::writing;
    if (request_.sending.given())
      needs.calls.allow(confine::Calls::changing).allow(confine::Calls::network);
    needs.setting_up = needs.working;
    return needs;
  }

  std::vector<Use> uses() const override {
    // Samples there are without CAP_SYS_PTRACE, too.
    const char* without =
        "nothing; without CAP_SYS_PTRACE alone, no labels and no names of functions of theirs";
    return {
        {"profile PID", capabilities::bpf, capabilities::bpf | capabilities::ptrace, without},
        {"profile --all", capabilities::bpf, capabilities::bpf | capabilities::ptrace, without}};
  }

  int run() override {
    catch_interrupts();
    request_.options.stop = &interrupted();
    if (auto taken = request_.take(); !taken) return report(taken.error());
    for (const ProfileOutput& output : request_.outputs)
      if (auto writable = check_writable(output); !writable) return report(writable.error());
    std::unique_ptr<send::Exporter> exporter;
    if (request_.sending.given()) {
      auto opened = request_.sending.open();
      if (!opened) return report(opened.error());
      exporter = std::move(*opened);
    }
    if (request_.options.all) allow_many_files();  // not for a command: it would inherit that
    auto profiling = observe::Profiling::open(request_.options);
    if (!profiling) return interrupted() ? exit_interrupted : report(profiling.error());
    if (auto confined = go_on_confined(needs()); !confined) return report(confined.error());
    announce();
    int status = request_.every        ? profile_continuously(**profiling, request_, exporter.get())
                 : request_.refreshing ? profile_watching(**profiling, request_)
                                       : profile_once(**profiling, request_, exporter.get());
    (*profiling)->end_command();
    for (const std::string& text : (*profiling)->take_notes()) note(text);
    if (exporter && !finish(*exporter, request_.sending.spool()) && status == exit_done)
      status = exit_failed;
    return status;
  }

 private:
  /// Sampling has begun.
  void announce() const {
    const observe::ProfilingOptions& options = request_.options;
    fmt::print(
        stderr, "vitrine: profiling {}: {}{}{}{}\n", printable(request_.subject()),
        options.on_cpu ? fmt::format("on CPU at {} Hz", options.frequency) : std::string(),
        options.on_cpu && options.off_cpu ? " and " : "", options.off_cpu ? "off CPU" : "",
        request_.time
            ? fmt::format(
                  ", for {}",
                  duration_text(std::chrono::duration<double, std::nano>(*request_.time).count(),
                                shows_utf8()))
            : std::string());
  }

  ProfileRequest request_;
};

}  // namespace

std::unique_ptr<Command> make_profile_command() {
  return std::make_unique<ProfileCommand>();
}

}  // namespace vitrine::cli
