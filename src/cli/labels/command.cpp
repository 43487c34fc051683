// vitrine labels: the label sets of a process's threads, once or again and again.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>

#include "cli/labels/text.hpp"
#include "cli/output/json.hpp"
#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "cli/shell/confinement.hpp"
#include "cli/shell/options.hpp"
#include "cli/shell/report.hpp"
#include "cli/shell/run.hpp"
#include "observe/labels/labels.hpp"
#include "observe/process/launch.hpp"

namespace vitrine::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds default_sampling_time{1000};  // ebpf mode sees who runs within it

class LabelsCommand : public Command {
 public:
  Manual manual() const override {
    return {
        "labels",
        "read the label sets of the threads of a process",
        {"Shows which labels each thread of a process has in force, in every format that the "
         "process publishes. Needs no cooperation from the process.",
         "Each line shows the evidence for its labels. proven: the thread did not run during the "
         "reading. serial: the writer's serial number was the same before and after. stopped: the "
         "thread was stopped. sampled: read in an interrupt of the thread itself. unproven: the "
         "best of several readings of a thread that kept running; it may mix two sets.",
         "Mode snapshot stops no thread and sees all threads. Mode ebpf stops no thread and sees "
         "the threads that run on a CPU while it samples. Mode ptrace stops each thread for some "
         "microseconds; a system call of the target may then end with EINTR."},
        {{"vitrine labels 4242", "the labels of all threads of process 4242, now"},
         {"vitrine labels 4242 --watch=500ms --duration 10s", "twice a second, for ten seconds"},
         {"vitrine labels 4242 --mode ebpf --duration 5s --json",
          "the labels of every thread seen on a CPU within five seconds, as NDJSON"},
         {"vitrine labels --watch --exec -- ./server --port 8080",
          "start a program, read it every second, and end when it ends"}},
        {"ps", "context", "doctor"}};
  }

  void define(CLI::App& app) override {
    app.add_option("PID", pid_, "Process ID")->check(at_least_one)->option_text(" ");
    app.add_option("TID", options_.tids, "Read only these threads")
        ->check(at_least_one)
        ->option_text("...");
    app.add_option("--mode", options_.mode, "Reading mode (snapshot)")
        ->transform(CLI::CheckedTransformer(
            std::map<std::string, observe::Mode>{{"snapshot", observe::Mode::snapshot},
                                                 {"ebpf", observe::Mode::ebpf},
                                                 {"ptrace", observe::Mode::ptrace}}))
        ->option_text("snapshot|ebpf|ptrace");
    app.add_option("--watch", watch_, "Read again every INTERVAL (1s if omitted): --watch=250ms")
        ->option_text("[=INTERVAL]");
    app.add_option("--duration", duration_, "Stop after this time: 500ms, 10s, 2m")
        ->option_text("TIME");
    app.add_option("--freq", options_.sample_hz, "Samples per second and CPU in ebpf mode (99)")
        ->check(CLI::Range(1, 10000))
        ->option_text("HZ");
    app.add_flag("--may-stop", options_.may_stop,
                 "Let snapshot stop a thread briefly if it cannot be proven otherwise");
    app.add_flag("--all", every_thread_, "Also list threads without labels (--json always does)");
    app.add_option("--max-labels", options_.limits.labels_per_set,
                   "Maximum number of labels of one set (256, at most 4096)")
        ->check(CLI::Range(std::size_t{1}, limits::hard_label_limits.labels_per_set))
        ->option_text("N");
    app.add_option("--max-value", options_.limits.value_bytes,
                   "Maximum number of bytes of one value (16384, at most 1048576)")
        ->check(CLI::Range(std::size_t{1}, limits::hard_label_limits.value_bytes))
        ->option_text("BYTES");
    redact_.define(app, "labels");
    app.add_flag("--json", json_, "Print NDJSON: one object for each thread and format");
    app.add_flag("--exec", exec_, "Start the command after -- and read it: --exec -- COMMAND...");
    app.add_option("--exec-word", command_)
        ->group("");  // main() fills it from `--exec -- COMMAND…`
  }

  Needs needs() const override {
    Needs needs = needs_of_bpf();
    if (options_.mode == observe::Mode::ptrace || options_.may_stop)
      needs.calls.allow(confine::Calls::tracing);
    needs.launches = exec_;
    if (exec_) needs.working = needs.working | capabilities::ending;
    return needs;
  }

  std::vector<Use> uses() const override {
    return {
        {"labels PID",
         {},
         capabilities::ptrace,
         "your own processes can be read; CAP_BPF and CAP_PERFMON prove more readings, faster"},
        {"labels PID --mode ptrace", {}, capabilities::ptrace, "your own processes can be read"},
        {"labels PID --mode ebpf", capabilities::bpf, capabilities::bpf | capabilities::ptrace,
         "the other modes"}};
  }

  int run() override {
    if (auto valid = take_times(); !valid) return report(valid.error());
    auto redaction = redact_.take();
    if (!redaction) return report(redaction.error());
    redaction_ = std::move(*redaction);
    if (exec_ && pid_ != 0)
      return report({ErrorCode::usage, "a PID and --exec exclude each other", "omit one of them"});
    options_.stop = &interrupted();
    catch_interrupts();
    std::optional<observe::Launched> launched;
    if (exec_) {
      auto started = observe::Launched::start(command_);
      if (!started) return report(started.error());
      launched = std::move(*started);
      pid_ = launched->pid();
      if (auto confined = go_on_confined(needs()); !confined) return report(confined.error());
    } else if (pid_ == 0) {
      return report(
          {ErrorCode::usage, "missing argument: no process",
           "give a PID (vitrine ps lists the publishing processes), or --exec -- COMMAND"});
    }
    const int status = watch(launched ? &*launched : nullptr);
    if (launched)
      if (const std::string told = launched->end(); !told.empty()) note(told);
    return status;
  }

 private:
  Result<void> take_times() {
    if (!watch_.empty()) interval_ = TRY(parse_interval(watch_));
    if (!duration_.empty()) {
      auto duration = TRY(parse_duration(duration_));
      end_ = Clock::now() + duration;
      // A duration asks for more than one moment; sampling has a window anyway.
      if (options_.mode == observe::Mode::ebpf && !interval_) window_ = duration;
      if (options_.mode != observe::Mode::ebpf && !interval_) interval_ = milliseconds(1000);
    }
    if (interval_) window_ = *interval_;
    return {};
  }

  bool repeats() const { return interval_.has_value(); }

  int watch(observe::Launched* launched) {
    auto reader = observe::LabelReader::open(pid_, options_);
    if (!reader) return report(reader.error());
    bool shown = false;
    for (auto next = Clock::now();;) {
      if (interval_) next += *interval_;
      auto snapshot = (*reader)->read(window_);
      if (!snapshot) {
        const bool ended = snapshot.error().code == ErrorCode::not_found;
        if (interrupted()) return exit_interrupted;
        if (launched != nullptr && launched->ended()) return exit_done;
        if (ended && shown && repeats()) {
          note(snapshot.error().message);
          return exit_done;
        }
        // While watching, a program may publish later: a library loaded, a first label set.
        const bool wait = repeats() && snapshot.error().code == ErrorCode::failed;
        if (!wait) return report(snapshot.error());
        if (said_.insert(snapshot.error().message).second)
          note(snapshot.error().message + "; still watching");
      } else {
        shown = true;
        if (!show(observe::redacted(std::move(*snapshot), redaction_))) return exit_done;
      }
      if (interrupted()) return exit_interrupted;
      if (!repeats() || (end_ && next >= *end_)) return exit_done;
      sleep_until(next);
      if (interrupted()) return exit_interrupted;
    }
  }

  bool show(const observe::Snapshot& snapshot) {
    for (const std::string& text : snapshot.notes)
      if (said_.insert(text).second) note(text);
    if (json_) {
      for (const observe::ThreadLabels& thread : snapshot.threads)
        if (!print_json(to_json(thread))) return false;
      return true;
    }
    const Style style = Style::of_stdout();
    const auto write = [](std::string_view text) {
      return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    };
    if (repeats() && !write(time_of_day() + "  ")) return false;
    return print_labels(snapshot, every_thread_, style, write) && (!repeats() || write("\n")) &&
           std::fflush(stdout) == 0;
  }

  static std::string time_of_day() {
    const auto now = std::chrono::system_clock::now();
    const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    std::tm local{};
    localtime_r(&seconds, &local);
    const auto ms = std::chrono::duration_cast<milliseconds>(now.time_since_epoch()).count() % 1000;
    return fmt::format("{:02}:{:02}:{:02}.{:03}", local.tm_hour, local.tm_min, local.tm_sec, ms);
  }

  int pid_ = 0;
  observe::LabelOptions options_;
  RedactOptions redact_;
  Redaction redaction_;
  std::string watch_;
  std::string duration_;
  bool every_thread_ = false;
  bool json_ = false;
  bool exec_ = false;
  std::vector<std::string> command_;

  std::optional<milliseconds> interval_;
  std::optional<Clock::time_point> end_;
  milliseconds window_ = default_sampling_time;
  std::set<std::string> said_;
};

}  // namespace

std::unique_ptr<Command> make_labels_command() {
  return std::make_unique<LabelsCommand>();
}

}  // namespace vitrine::cli
