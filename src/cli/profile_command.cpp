// vitrine profile: where CPU time and waiting go, by label.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "cli/command.hpp"
#include "cli/duration.hpp"
#include "cli/exit_code.hpp"
#include "cli/export_options.hpp"
#include "cli/interrupt.hpp"
#include "cli/line_output.hpp"
#include "cli/live_text.hpp"
#include "cli/path_pattern.hpp"
#include "cli/profile_outputs.hpp"
#include "cli/profile_text.hpp"
#include "cli/profile_writer.hpp"
#include "cli/progress.hpp"
#include "cli/report.hpp"
#include "cli/text.hpp"
#include "cli/units.hpp"
#include "observe/profiling.hpp"
#include "profile/select.hpp"

namespace vitrine::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds usual_duration{10'000};
constexpr milliseconds poll_time{100};

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
         {"vitrine profile 4242 --filter 'tenant=acme,route~^/pay' --group-by route --format "
          "folded",
          "folded stacks of one tenant, by route"},
         {"vitrine profile --all --continuous 10s --export otlp+http://localhost:4318 --spool "
          "/var/spool/vitrine",
          "the machine, always, to a collector"},
         {"vitrine profile 4242 --continuous 1m -o 'profile-%t.pb.gz'", "a file a minute"}},
        {"labels", "trace", "doctor", "perf(1)"}};
  }

  void define(CLI::App& app) override {
    app.add_option("PID", options_.pids, "The processes")->option_text("...");
    app.add_flag("--all", options_.all, "Every process of the machine");
    app.add_flag("--exec", exec_,
                 "Start the command after -- and profile it: --exec -- COMMAND...");
    app.add_option("--exec-word", options_.command)
        ->group("");  // main() fills it from `--exec -- COMMAND…`
    app.add_flag("--follow", options_.follow, "Profile the processes that they fork, too");
    app.add_option("--duration", duration_,
                   "Stop after this long (10s; a command: when it ends): 500ms, 10s, 2m")
        ->option_text("TIME");
    app.add_option("--freq", options_.frequency, "On-CPU samples a second a CPU (99)")
        ->check(CLI::Range(1U, observe::most_frequency))
        ->option_text("HZ");
    app.add_flag("--on-cpu", on_cpu_, "Sample what runs: the default");
    app.add_flag("--off-cpu", options_.off_cpu, "Sample what waits; with --on-cpu both");
    app.add_option("--min-block", min_block_, "Off CPU: pass over what is shorter: 1ms")
        ->option_text("TIME");
    app.add_flag("--preempted", options_.preempted,
                 "Off CPU: also threads that could have run, but others did");
    app.add_flag("--no-kernel", no_kernel_, "Leave the kernel's functions out");
    app.add_option("--stack-bytes", options_.stack_bytes,
                   "Copy at most so much of a stack (16384, at most 65536)")
        ->check(CLI::Range(observe::least_stack_bytes, limits::stack_copy))
        ->option_text("BYTES");
    app.add_option("-o,--output", paths_, "Write it there, - for standard output; may be repeated")
        ->allow_extra_args(false)
        ->option_text("FILE");
    app.add_option("--format", formats_,
                   "pprof, otlp, folded, speedscope, json or html; the first of the first -o, and "
                   "so on")
        ->allow_extra_args(false)
        ->option_text("FORMAT");
    app.add_option("--group-by", encoding_.group_by,
                   "Outermost frames by the values of these (folded, speedscope, html)")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->option_text("KEY,...");
    app.add_option("--filter", filter_, "Only samples of which this is true")
        ->option_text("FILTER");
    app.add_option("--top", top_, "Show a table: time, share, samples by the values of these")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->option_text("KEY,...");
    app.add_option("--watch", watch_, "Refresh the table each INTERVAL (1s when not given)")
        ->option_text("[=INTERVAL]");
    app.add_option("--label-prefix", encoding_.label_prefix,
                   "Put before the keys of labels (otlp, pprof)")
        ->option_text("TEXT");
    app.add_flag("--otlp-compact", encoding_.otlp_compact,
                 "Attributes of otlp by index: smaller, and understood by fewer");
    app.add_option("--continuous", continuous_,
                   "A profile of each INTERVAL, until stopped: 10s; -o needs a %t in its name")
        ->option_text("INTERVAL");
    export_.define(app);
  }

  int run() override {
    catch_interrupts();
    options_.stop = &interrupted();
    if (auto taken = take_options(); !taken) return report(taken.error());
    for (const ProfileOutput& output : outputs_)
      if (auto writable = check_writable(output); !writable) return report(writable.error());
    if (export_.given()) {
      auto opened = export_.open();
      if (!opened) return report(opened.error());
      exporter_ = std::move(*opened);
    }
    if (options_.all) allow_many_files();  // not for a command: it would inherit that
    auto profiling = observe::Profiling::open(options_);
    if (!profiling) return interrupted() ? exit_interrupted : report(profiling.error());
    announce();
    int status = every_      ? continuous(**profiling)
                 : interval_ ? watch(**profiling)
                             : once(**profiling);
    tell(**profiling);
    if (exporter_ && !finish(*exporter_, export_.spool()) && status == exit_done)
      status = exit_failed;
    return status;
  }

 private:
  Result<void> take_options() {
    if (exec_ && options_.command.empty())
      return fail(ErrorCode::usage, "--exec needs a command",
                  "write it after --: --exec -- ./server");
    options_.on_cpu = on_cpu_ || !options_.off_cpu;
    options_.kernel_frames = !no_kernel_;
    if (!options_.off_cpu && (options_.preempted || !min_block_.empty()))
      return fail(ErrorCode::usage, "--preempted and --min-block are about waiting",
                  "add --off-cpu");
    if (!min_block_.empty()) {
      auto shortest = parse_duration(min_block_);
      if (!shortest) return tl::unexpected(shortest.error());
      options_.min_block = *shortest;
    }
    if (!duration_.empty()) {
      auto duration = parse_duration(duration_);
      if (!duration) return tl::unexpected(duration.error());
      time_ = *duration;
    } else if (!exec_ && watch_.empty() && continuous_.empty()) {
      time_ = usual_duration;
    }
    auto outputs = profile_outputs(paths_, formats_);
    if (!outputs) return tl::unexpected(outputs.error());
    outputs_ = std::move(*outputs);
    if (!filter_.empty()) {
      auto filter = profile::Filter::parse(filter_);
      if (!filter) return tl::unexpected(filter.error());
      only_ = std::move(*filter);
    }
    if (auto sending = export_.check(); !sending) return sending;
    if (auto continuous = take_continuous(); !continuous) return continuous;
    return take_watch();
  }

  Result<void> take_continuous() {
    if (continuous_.empty()) return {};
    auto every = parse_duration(continuous_);
    if (!every) return tl::unexpected(every.error());
    every_ = *every;
    if (!watch_.empty() || !top_.empty())
      return fail(ErrorCode::usage, "--continuous shows no table", "leave out --top and --watch");
    if (outputs_.empty() && !export_.given())
      return fail(ErrorCode::usage, "the profiles of --continuous go nowhere",
                  "add --export otlp+http://HOST:4318, or -o 'profile-%t.pb.gz'");
    for (const ProfileOutput& output : outputs_)
      if (output.path == "-" ? output.encoding != profile::Encoding::json : !has_time(output.path))
        return fail(ErrorCode::usage,
                    fmt::format("{}: each profile would replace the one before it", output.path),
                    "put %t, the time, into its name: -o 'profile-%t.pb.gz'");
    return {};
  }

  Result<void> take_watch() {
    // A table of labels needs no names.
    options_.symbols = top_.empty() || !outputs_.empty() || export_.given();
    if (watch_.empty()) return {};
    if (top_.empty() || !outputs_.empty())
      return fail(ErrorCode::usage, "--watch refreshes a table", "add --top KEY, and leave out -o");
    auto interval = parse_interval(watch_);
    if (!interval) return tl::unexpected(interval.error());
    interval_ = *interval;
    return {};
  }

  // --- one profile

  int once(observe::Profiling& profiling) {
    tell(profiling);
    Progress progress("profiling " + subject(), time_);
    const auto polled =
        sample(profiling, std::nullopt, [&] { progress.show(profiling.waiting()); });
    progress.clear();
    if (!polled) return report(polled.error());
    profiling.stop();
    const int status = interrupted() ? exit_interrupted : exit_done;
    const profile::Profile taken = select(profiling.take());
    tell(profiling);
    encoding_.title = subject();
    const int written = write(taken);
    if (written != exit_done) return written;
    if (top_.empty() && outputs_.empty() && !exporter_) print_summary(taken);
    if (!top_.empty()) print(top_text(top_, profile::top(taken, top_), style_, text_));
    return status;
  }

  int write(const profile::Profile& taken) {
    int status = exit_done;
    if (exporter_) send_profile(*exporter_, taken, encoding_);
    for (const ProfileOutput& output : outputs_) {
      const auto written = write_profile(taken, output, encoding_);
      if (!written) {
        status = report(written.error());
      } else if (output.path != "-") {
        fmt::print(stderr, "vitrine: {}: {}", printable(output.path), profile_head(taken, text_));
      }
    }
    if (!outputs_.empty() || exporter_)
      for (const std::string& line : lines_of(profile_losses(taken))) note(line);
    return status;
  }

  void print_summary(const profile::Profile& taken) {
    print(profile_summary(taken, style_, text_));
    if (taken.samples.empty())
      note(options_.off_cpu ? "nothing ran, and nothing waited as long as --min-block asks"
                            : "nothing ran meanwhile: --off-cpu shows what it waits for");
    else
      fmt::print(stderr, "\n-o profile.html makes a page with flame graphs of it\n");
  }

  // --- profiles, again and again

  int continuous(observe::Profiling& profiling) {
    encoding_.title = subject();
    ProfileWriter writer(outputs_, encoding_, exporter_.get());
    Progress progress("profiling " + subject(), std::nullopt);
    if (time_) end_ = Clock::now() + *time_;
    std::uint64_t lost = 0;
    auto next = Clock::now();
    for (bool over = false; !over;) {
      next = std::max(next + *every_, Clock::now());
      do {  // goes on sampling while the one before is still written
        const auto sampled = sample(
            profiling, std::max(next, Clock::now() + (writer.busy() ? poll_time : milliseconds(0))),
            [&] { progress.show(profiling.waiting()); });
        if (!sampled) return report(sampled.error());
        over = *sampled;
      } while (!over && writer.busy());
      if (over) profiling.stop();
      writer.wait();
      profile::Profile taken = select(profiling.take());
      progress.clear();
      tell_some(profiling);
      if (exporter_) cli::tell(*exporter_);
      if (lost == 0 && taken.losses.events != 0) note("samples get lost for want of room");
      lost += taken.losses.events;
      if (!taken.samples.empty()) writer.begin(std::move(taken));
    }
    if (lost != 0) note(fmt::format("{} samples were lost in all", lost));
    return writer.wait() ? exit_done : exit_failed;  // stopped as it was meant to be
  }

  // --- a table, again and again

  int watch(observe::Profiling& profiling) {
    LiveText live;
    const bool terminal = ::isatty(STDOUT_FILENO) == 1;
    bool shown = false;
    if (time_) end_ = Clock::now() + *time_;
    for (;;) {
      const auto over = sample(profiling, Clock::now() + *interval_, [] {});
      if (!over) return report(over.error());
      if (*over) profiling.stop();
      const profile::Profile taken = select(profiling.take());
      // A moment at the end would take the last whole interval away.
      const bool is_rest =
          shown && *over &&
          taken.duration_ns <
              static_cast<std::uint64_t>(std::chrono::nanoseconds(*interval_).count() / 2);
      if (is_rest) return interrupted() ? exit_interrupted : exit_done;
      if (terminal) {
        text_.most_rows = std::max<std::size_t>(terminal_size().lines, 8) - 4;
        if (!tell(profiling).empty()) live.leave();
      }
      const std::string table =
          profile_head(taken, text_) + top_text(top_, profile::top(taken, top_), style_, text_);
      shown = true;
      if (!(terminal ? live.show(table) : print(table + '\n'))) return exit_done;
      if (*over) return interrupted() ? exit_interrupted : exit_done;
    }
  }

  /// Until `until`, or the end of all: whether that came. `each`: now and then.
  template <class Each>
  Result<bool> sample(observe::Profiling& profiling, std::optional<Clock::time_point> until,
                      Each each) {
    if (!end_ && time_) end_ = Clock::now() + *time_;
    for (;;) {
      const bool over = interrupted() || profiling.ended() || (end_ && Clock::now() >= *end_);
      if (over) return true;
      if (until && Clock::now() >= *until) return false;
      auto next = Clock::now() + poll_time;
      for (const auto& limit : {end_, until})
        if (limit) next = std::min(next, *limit);
      const auto left = std::chrono::ceil<milliseconds>(next - Clock::now());
      if (auto polled = profiling.poll(std::max(left, milliseconds(0))); !polled)
        return tl::unexpected(std::move(polled.error()));
      each();
    }
  }

  [[nodiscard]] profile::Profile select(profile::Profile taken) const {
    return filter_.empty() ? std::move(taken) : profile::filtered(std::move(taken), only_);
  }

  /// Sampling has begun.
  void announce() const {
    fmt::print(
        stderr, "vitrine: profiling {}: {}{}{}{}\n", printable(subject()),
        options_.on_cpu ? fmt::format("on CPU at {} Hz", options_.frequency) : std::string(),
        options_.on_cpu && options_.off_cpu ? " and " : "", options_.off_cpu ? "off CPU" : "",
        time_ ? fmt::format(", for {}",
                            duration_text(std::chrono::duration<double, std::nano>(*time_).count(),
                                          text_.utf8))
              : std::string());
  }

  [[nodiscard]] std::string subject() const {
    if (options_.all) return "all processes";
    if (exec_) return options_.command.front();
    return fmt::format("{}", fmt::join(options_.pids, ", "));
  }

  static std::vector<std::string> tell(observe::Profiling& profiling) {
    std::vector<std::string> notes = profiling.take_notes();
    for (const std::string& text : notes) note(text);
    return notes;
  }

  /// Where it goes on for ever, and processes come and go, all of them would fill the journal.
  static void tell_some(observe::Profiling& profiling) {
    constexpr std::size_t most = 5;
    const std::vector<std::string> notes = profiling.take_notes();
    for (std::size_t i = 0; i < std::min(most, notes.size()); ++i) note(notes[i]);
    if (notes.size() > most) note(fmt::format("and {} notes more", notes.size() - most));
  }

  static std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      lines.emplace_back(text.substr(0, end));
      text.remove_prefix(std::min(end, text.size() - 1) + 1);
    }
    return lines;
  }

  /// False when nobody reads any more.
  static bool print(std::string_view text) {
    LineOutput output;
    output.text() = text;
    return output.flush();
  }

  bool exec_ = false;
  bool on_cpu_ = false;
  bool no_kernel_ = false;
  std::string duration_;
  std::string min_block_;
  std::string filter_;
  std::string watch_;
  std::string continuous_;
  std::vector<std::string> paths_;
  std::vector<std::string> formats_;
  std::vector<std::string> top_;
  observe::ProfilingOptions options_;
  profile::EncodeOptions encoding_;
  std::vector<ProfileOutput> outputs_;
  profile::Filter only_;
  std::optional<milliseconds> time_;
  std::optional<milliseconds> interval_;
  std::optional<milliseconds> every_;
  ExportOptions export_;
  std::unique_ptr<send::Exporter> exporter_;
  std::optional<Clock::time_point> end_;
  Style style_ = Style::of_stdout();
  ProfileTextOptions text_{.utf8 = shows_utf8()};
};

}  // namespace

std::unique_ptr<Command> make_profile_command() {
  return std::make_unique<ProfileCommand>();
}

}  // namespace vitrine::cli
