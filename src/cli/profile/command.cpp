// vitrine profile: where CPU time and waiting go, by label.
#include <fmt/format.h>

#include "base/file_descriptor.hpp"
#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "cli/profile/request.hpp"
#include "cli/profile/runs.hpp"
#include "cli/shell/confinement.hpp"
#include "cli/shell/report.hpp"
#include "cli/shell/run.hpp"

namespace vitrine::cli {
namespace {

class ProfileCommand : public Command {
 public:
  ProfileCommand() {
    parts_.push_back(make_profile_merge_command());
    parts_.push_back(make_profile_diff_command());
    parts_.push_back(make_profile_open_command());
  }

  Manual manual() const override {
    return {
        "profile",
        "show where threads spend CPU time and waiting time, by label",
        {"Samples running threads (--on-cpu, the default), waiting threads (--off-cpu), or both. "
         "Each sample has the stack of the thread, and the labels and trace context that the "
         "thread had in force, in every format that the process publishes. Threads, libraries and, "
         "with --follow, processes that start later are included. vitrine injects nothing into the "
         "process and leaves nothing behind, however it ends.",
         "Stacks need no frame pointers: the kernel unwinds them by the call frame information of "
         "the files. Where it cannot (--unwind), registers and the top of the stack are copied, "
         "and vitrine unwinds the copy. A stack without its outer frames is marked, never dropped. "
         "Names, files, lines and inlined functions come from symbol "
         "tables and debug files; names of JIT code come from /tmp/perf-PID.map.",
         "Without -o and --top, vitrine prints a summary. With -o it writes a file in the format "
         "that the file name ends in, completely or not at all; repeat -o for several formats. "
         "Formats: pprof (.pb.gz), otlp (.otlp), folded (.folded), speedscope (.speedscope.json), "
         "json (.ndjson), json-flat (.flat.ndjson) for tables, and html, a single page with flame "
         "graphs by label that needs no network. -o - is standard output; what a command of --exec "
         "writes there goes to standard error then.",
         "--duration bounds the command, not only the sampling: files are parsed meanwhile, and a "
         "twentieth of that time is left for the rest of the names. --naming waits longer. With "
         "CAP_SYS_NICE, vitrine runs at nice -20, so that busy programs do not delay it.",
         "Lost samples are counted and reported. Off-CPU time counts from when a thread leaves its "
         "CPU until it is on a CPU again, with the labels of that time; time in which a thread was "
         "runnable but preempted counts only with --preempted.",
         "With --wakers, each off-CPU sample that has ended also has what ended it: above the "
         "stack of the waiting thread and a frame called --, the stack of the thread that woke "
         "it, its root and its name on top; and its labels as waker.KEY, beside waker.process, "
         "waker.pid, waker.tid, waker.thread, waker.trace_id and waker.span_id. The waker may "
         "be of any process. A wait that an interrupt ended, such as a timer's, has [interrupt] "
         "in its place.",
         "A KEY is a label key, or pid, tid, thread, process, cpu, trace_id or span_id. A FILTER "
         "is a list of conditions that must all hold, separated by commas: tenant=acme, "
         "step!=idle, and route~^/pay and route!~health with regular expressions.",
         "--export sends profiles to an OpenTelemetry Collector, to Pyroscope or to Parca, by OTLP "
         "over HTTP or gRPC, or to a table of ClickHouse. Requests that are not accepted yet are "
         "retried, and wait in memory or "
         "in --spool; requests refused for their size are split; lost profiles are counted and "
         "reported. With --continuous, vitrine takes one profile after another until ^C or "
         "SIGTERM, and keeps sampling while it writes: to files, where %t in "
         "the name becomes the time (UTC), to a collector, or both."},
        {{"vitrine profile 4242", "ten seconds of process 4242, summarised on the terminal"},
         {"vitrine profile 4242 --duration 30s -o profile.html -o profile.pb.gz",
          "a page for a browser, and the same profile for pprof"},
         {"vitrine profile --exec -- ./server --port 8080", "a program, from its start to its end"},
         {"vitrine profile --all --off-cpu --on-cpu --top process",
          "which processes of the machine run and wait"},
         {"vitrine profile 4242 --top tenant --watch", "tenants, refreshed every second"},
         {"vitrine profile 4242 --off-cpu --wakers --top tenant,waker.tenant",
          "which tenant's threads wait for which tenant's"},
         {"vitrine profile 4242 --filter 'tenant=acme,route~^/rep' --group-by route --format "
          "folded",
          "folded stacks of one tenant, by route"},
         {"vitrine profile --all --continuous 10s --export otlp+http://localhost:4318 --spool "
          "/var/spool/vitrine",
          "the whole machine, continuously, to a collector"},
         {"vitrine profile 4242 --continuous 1m -o 'profile-%t.pb.gz'", "one file per minute"},
         {"vitrine profile 4242 --verify-unwind --duration 10s",
          "stacks unwound in the kernel, compared with those of copies"}},
        {"labels", "trace", "doctor", "perf(1)"}};
  }

  void define(CLI::App& app) override { request_.define(app); }

  Needs needs() const override {
    Needs needs = needs_of_bpf();
    needs.working = needs.working | capabilities::kernel_names;
    if (!request_.options.command.empty()) {
      needs.calls.allow(sandbox::Calls::tracing);
      needs.working = needs.working | capabilities::ending;
      needs.launches = true;
    }
    if (request_.writes_files()) needs.calls.allow(sandbox::Calls::changing);
    if (request_.writes_elsewhere()) needs.working = needs.working | capabilities::writing;
    if (request_.sending.given())
      needs.calls.allow(sandbox::Calls::changing).allow(sandbox::Calls::network);
    needs.setting_up = needs.setting_up | needs.working | capabilities::priority;
    return needs;
  }

  std::vector<Use> uses() const override {
    // Samples there are without CAP_SYS_PTRACE, too.
    const char* without =
        "nothing; without CAP_SYS_PTRACE, other users' processes have no labels and no function "
        "names";
    const auto own = capabilities::bpf;
    const auto others = own | capabilities::ptrace;
    return {{"profile PID", own, others, without, false, true},
            {"profile --all", own, others, without, false, true}};
  }

  std::vector<Command*> parts() override {
    std::vector<Command*> out;
    for (const auto& part : parts_) out.push_back(part.get());
    return out;
  }
  bool runs_alone() const override { return true; }

  Result<int> run() override {
    const bool launches = !request_.options.command.empty();
    if (!launches) take_priority();  // before what takes long beside busy processes
    catch_interrupts();
    request_.options.stop = &interrupted();
    TRY(request_.take());
    for (const ProfileOutput& output : request_.view.outputs) TRY(check_writable(output));
    std::unique_ptr<ProfileSender> sender;
    if (request_.sending.given()) {
      sender = TRY(request_.sending.open(request_.view.encoding));
    }
    allow_many_files();
    auto profiling = observe::Profiling::open(request_.options);
    if (!profiling) return interrupted() ? exit_interrupted : report(profiling.error());
    if (launches) take_priority();  // by now it runs, with the priority that it was given
    TRY(go_on_confined(needs()));
    announce();
    int status = request_.every        ? profile_continuously(**profiling, request_, sender.get())
                 : request_.refreshing ? profile_watching(**profiling, request_)
                                       : profile_once(**profiling, request_, sender.get());
    (*profiling)->end_command();
    for (const std::string& text : (*profiling)->take_notes()) note(text);
    request_.view.report_unmet();
    if (sender && !finish(*sender)) status = exit_of_loss(status);
    return status;
  }

 private:
  /// Sampling has begun.
  void announce() const {
    const observe::ProfilingOptions& options = request_.options;
    print_error(
        "vitrine: profiling {}: {}{}{}{}\n", printable(request_.subject()),
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
  std::vector<std::unique_ptr<Command>> parts_;
};

}  // namespace

std::unique_ptr<Command> make_profile_command() {
  return std::make_unique<ProfileCommand>();
}

}  // namespace vitrine::cli
