#include "cli/profile/request.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/limits.hpp"
#include "cli/profile/outputs.hpp"
#include "cli/shell/options.hpp"
#include "cli/shell/output_file.hpp"
#include "profile/select.hpp"

namespace vitrine::cli {
namespace {

constexpr std::chrono::milliseconds usual_duration{10'000};

}  // namespace

void SamplingOptions::define(CLI::App& app) {
  app.add_option("-F,--freq", frequency_, "On-CPU samples per second and CPU (99)")
      ->check(CLI::Range(1U, limits::sampling_frequency))
      ->option_text("HZ");
  app.add_flag("--on-cpu", on_cpu_, "Sample running threads (the default)");
  app.add_flag("--off-cpu", off_cpu_, "Sample waiting threads; with --on-cpu both");
  add_parsed(app, "--min-block", min_block_, parse_duration, "Off CPU: ignore shorter waits: 1ms")
      ->option_text("TIME");
  app.add_flag("--preempted", preempted_,
               "Off CPU: also count time in which threads were runnable but preempted");
  app.add_flag("--wakers", wakers_,
               "Off CPU: add the stack and labels of the thread that ended each wait");
  app.add_flag("--no-kernel", no_kernel_, "Omit functions of the kernel");
  app.add_flag("--no-symbols", no_symbols_,
               "Keep addresses and build IDs without names, for an engine that has the symbols");
  app.add_option("--unwind", unwind_,
                 "Unwind stacks in the kernel, or from a copy of each: kernel, copy, auto (auto)")
      ->check(CLI::IsMember({"kernel", "copy", "auto"}))
      ->option_text("WHERE");
  app.add_flag("--verify-unwind", verify_unwind_,
               "Unwind each stack in the kernel and from a copy, and report how many agree");
  app.add_option("--stack-bytes", stack_bytes_,
                 "Maximum number of bytes copied from a stack (16384, at most 65536)")
      ->check(CLI::Range(observe::min_stack_bytes, limits::stack_copy))
      ->option_text("BYTES");
  app.add_option("--stack-depth", stack_depth_,
                 "Maximum number of frames of a stack; the middle of deeper ones is omitted (512)")
      ->check(CLI::Range(observe::min_stack_depth, limits::stack_depth))
      ->option_text("FRAMES");
  app.add_option("--buffer", buffer_mib_,
                 "Megabytes of samples that may wait to be read, and half as many as of waiting "
                 "threads (32; less without --off-cpu; at most 1024)")
      ->check(CLI::Range(std::size_t{1}, observe::max_buffer_bytes >> 20))
      ->option_text("MB");
  add_parsed(app, "--naming", naming_, parse_duration,
             "Wait at most this long for names of functions after sampling: 1m (30s; with "
             "--duration a twentieth of it, at least 1s)")
      ->option_text("TIME");
}

Result<void> SamplingOptions::take(observe::ProfilingOptions& options,
                                   std::optional<std::chrono::milliseconds>& naming) const {
  options.frequency = frequency_;
  options.on_cpu = on_cpu_ || !off_cpu_;
  options.off_cpu = off_cpu_;
  options.preempted = preempted_;
  options.wakers = wakers_;
  options.kernel_frames = !no_kernel_;
  options.symbols = !no_symbols_;
  options.verify_unwind = verify_unwind_;
  options.stack_bytes = stack_bytes_;
  options.stack_depth = stack_depth_;
  if (buffer_mib_) options.buffer_bytes = *buffer_mib_ << 20;
  options.unwind = unwind_ == "kernel" ? observe::Unwind::kernel
                   : unwind_ == "copy" ? observe::Unwind::copy
                                       : observe::Unwind::automatic;
  if (verify_unwind_ && unwind_ == "copy")
    return fail(ErrorCode::usage, "--verify-unwind compares what the kernel unwinds with copies",
                "omit --unwind copy");
  if (!off_cpu_ && (preempted_ || min_block_ || wakers_))
    return fail(ErrorCode::usage, "--preempted, --min-block and --wakers require --off-cpu",
                "add --off-cpu");
  if (min_block_) options.min_block = *min_block_;
  if (naming_) naming = naming_;
  return {};
}

void ProfileRequest::define(CLI::App& app) {
  app.add_option("PID", options.pids, "Process IDs")->option_text("...");
  processes_.define(app);
  app.add_flag("-a,--all", options.all, "Profile every process of the machine");
  add_exec(app, exec_, options.command, "profile");
  app.add_flag("--follow", options.follow, "Also profile forked processes");
  add_duration(app, time, "Stop after this time (10s; a command: when it ends): 500ms, 10s, 2m");
  app.add_flag("-g", stacks_, "No effect: stacks are always taken (for users of perf record -g)");
  sampling_.define(app);
  view.define(app);
  add_watch(app, refreshing, "Refresh the table");
  add_parsed(app, "--continuous", every, parse_interval,
             "Take one profile per INTERVAL until stopped: 10s; -o needs a %t in its name")
      ->option_text("INTERVAL");
  sending.define(app);
}

Result<void> ProfileRequest::take() {
  for (const pid_t pid : TRY(processes_.take()))
    if (std::ranges::count(options.pids, pid) == 0) options.pids.push_back(pid);
  TRY(sampling_.take(options, naming));
  options.always_on = every;
  is_bounded = time.has_value();
  if (!is_bounded && !exec_ && !refreshing && !every) time = usual_duration;
  options.duration = time;
  TRY(view.take());
  options.command_to_stderr = std::ranges::any_of(
      view.outputs, [](const ProfileOutput& output) { return output.path == "-"; });
  view.spare(options, refreshing ? refreshing : every);
  view.sees_starts = options.follow || options.all || exec_;
  TRY(sending.check());
  TRY(check_continuous());
  return check_watch();
}

Result<void> ProfileRequest::check_continuous() const {
  if (!every) return {};
  if (refreshing || !view.top.empty())
    return fail(ErrorCode::usage, "--continuous shows no table", "omit --top and --watch");
  if (view.outputs.empty() && !sending.given())
    return fail(ErrorCode::usage, "--continuous has no output",
                "add --export otlp+http://HOST:4318, or -o 'profile-%t.pb.gz'");
  return check_repeated(view.outputs);
}

Result<void> ProfileRequest::check_watch() {
  // A table of labels needs no names.
  if (!view.top.empty() && view.outputs.empty() && !sending.given()) options.symbols = false;
  if (!refreshing) return {};
  if (view.top.empty() || !view.outputs.empty() || sending.given())
    return fail(ErrorCode::usage, "--watch requires a table",
                "add --top KEY, and omit -o and --export");
  return {};
}

bool ProfileRequest::writes_files() const {
  return std::ranges::any_of(view.paths(), [](const std::string& path) { return path != "-"; });
}

bool ProfileRequest::writes_elsewhere() const {
  return std::ranges::any_of(view.paths(),
                             [](const std::string& path) { return !is_users_own(path); });
}

std::string ProfileRequest::subject() const {
  if (options.all) return "all processes";
  if (exec_) return options.command.front();
  return fmt::format("{}", fmt::join(options.pids, ", "));
}

}  // namespace vitrine::cli
