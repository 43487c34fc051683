#include "cli/profile/runs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "agent/continuous.hpp"
#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "cli/profile/outputs.hpp"
#include "cli/profile/text.hpp"
#include "cli/shell/report.hpp"

namespace vitrine::cli {

namespace {

using agent::Clock;
using std::chrono::milliseconds;

/// From one line of progress to the next, on a terminal and elsewhere. What ends the profile, ends a wait for them.
constexpr milliseconds progress_time{500}, unseen_progress_time{4000};
/// Without --duration and --naming.
constexpr milliseconds usual_naming{30'000};

/// A duration that was asked for is a bound: a tenth of it is left for all that follows, of which names
/// may take half.
milliseconds naming_time(const ProfileRequest& request) {
  if (request.naming) return *request.naming;
  if (!request.is_bounded) return usual_naming;
  constexpr milliseconds shortest{1000};
  constexpr int part = 20;
  return std::clamp(std::chrono::ceil<milliseconds>(*request.time / part), shortest, usual_naming);
}

/// Until `until`, or the end of all: whether that came. `each`: now and then.
template <class Each>
Result<bool> sample(observe::Profiling& profiling, std::optional<Clock::time_point> end,
                    std::optional<Clock::time_point> until, Each each) {
  const auto is_over = [&] {
    each();
    return interrupted().load();
  };
  const bool is_seen = ::isatty(STDERR_FILENO) == 1;
  return agent::sample_until(profiling, end, until, is_over,
                             is_seen ? progress_time : unseen_progress_time);
}

/// Returns how many notes there were.
std::size_t print_notes(observe::Profiling& profiling) {
  const std::vector<std::string> notes = profiling.take_notes();
  for (const std::string& text : notes) note(text);
  return notes.size();
}

/// False when the output has no reader.
bool print(std::string_view text) {
  return write_output(text) && flush_output();
}

/// "server (4242)": what a page is headed with.
std::string title_of(const profile::Profile& taken, const ProfileRequest& request) {
  constexpr std::size_t most = 3;
  if (request.options.all || taken.processes.empty() || taken.processes.size() > most)
    return request.subject();
  std::vector<std::string> names;
  for (const profile::Process& process : taken.processes)
    names.push_back(fmt::format("{} ({})", process.command, process.pid));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Why a profile is empty, and what to do about it.
const char* hint_of_empty(const ProfileRequest& request) {
  if (request.options.off_cpu)
    return "no thread ran, and none waited as long as --min-block requires";
  return "no sample was of a thread that ran: use --off-cpu to see what threads wait for, or a "
         "higher --freq for a short program";
}

}  // namespace

int profile_once(observe::Profiling& profiling, const ProfileRequest& request,
                 ProfileSender* sender) {
  print_notes(profiling);
  Progress progress("profiling " + request.subject(), request.time);
  const auto polled =
      sample(profiling, profiling.end(), std::nullopt, [&] { progress.show(profiling.waiting()); });
  progress.clear();
  if (!polled) return report(polled.error());
  profiling.stop();
  const int status = interrupted() ? exit_interrupted : exit_done;
  const profile::Profile taken =
      request.view.select(profiling.take_to_name(naming_time(request))());
  print_notes(profiling);
  const int shown = show_profile(taken, request.view, title_of(taken, request), sender);
  if (shown != exit_done) return shown;
  const bool is_summary =
      request.view.top.empty() && request.view.outputs.empty() && sender == nullptr;
  if (!taken.samples.empty()) {
    if (is_summary) print_error("\n-o profile.html writes a page with flame graphs\n");
  } else if (!request.view.has_filter()) {  // else that has been noted
    note(hint_of_empty(request));
  }
  return status;
}

namespace {

/// On the terminal.
class ShownContinuous final : public agent::ContinuousListener {
 public:
  ShownContinuous(const std::string& subject, const agent::ProfileWriter& writer,
                  ProfileSender* sender)
      : progress_("profiling " + subject, std::nullopt), writer_(writer), sender_(sender) {}

  bool is_over(std::size_t waiting) override {
    progress_.show(waiting);
    return interrupted() || !writer_.has_reader();
  }
  void report(const std::vector<std::string>& notes, const std::vector<Error>& errors) override {
    progress_.clear();
    for (const Error& error : errors) {
      if (error.code == ErrorCode::interrupted) continue;  // a reader that goes away is no failure
      cli::report(error);
      has_failed_ = true;
    }
    for (const std::string& text : notes) note(text);
    if (sender_ != nullptr) cli::print_notes(*sender_);
  }
  [[nodiscard]] bool has_failed() const { return has_failed_; }

 private:
  Progress progress_;
  const agent::ProfileWriter& writer_;
  ProfileSender* sender_;
  bool has_failed_ = false;
};

}  // namespace

int profile_continuously(observe::Profiling& profiling, const ProfileRequest& request,
                         ProfileSender* sender) {
  profile::EncodeOptions encoding = request.view.encoding;
  encoding.title = request.subject();
  agent::ProfileWriter writer(request.view.outputs, encoding, sender);
  ShownContinuous shown(request.subject(), writer, sender);
  agent::ContinuousOptions options{*request.every, request.naming, profiling.end(), {}};
  options.select = [&request](profile::Profile taken) {
    return request.view.select(std::move(taken));
  };
  if (const auto done = agent::profile_continuously(profiling, writer, options, shown); !done)
    return report(done.error());
  shown.report({}, writer.wait());
  const agent::ProfileCounts& counts = writer.counts();
  if (counts.lost != 0) note(fmt::format("{} samples were lost in total", counts.lost));
  if (counts.unnamed != 0)
    note(fmt::format("{} locations of profiles were not named in time", counts.unnamed));
  if (shown.has_failed()) return exit_failed;
  return interrupted() && !is_terminated() ? exit_interrupted : exit_done;
}

int profile_watching(observe::Profiling& profiling, const ProfileRequest& request) {
  LiveText live;
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  const Style style = Style::of_stdout();
  ProfileTextOptions text{.utf8 = shows_utf8(), .sees_starts = request.view.sees_starts};
  bool shown = false;
  const auto end = profiling.end();
  for (;;) {
    const auto over = sample(profiling, end, Clock::now() + *request.refreshing, [] {});
    if (!over) return report(over.error());
    if (*over) profiling.stop();
    const profile::Profile taken =
        request.view.select(profiling.take_to_name(*request.refreshing / 2)());
    // A short interval at the end would take the last whole interval away.
    const bool is_rest =
        shown && *over &&
        taken.duration_ns <
            static_cast<std::uint64_t>(std::chrono::nanoseconds(*request.refreshing).count() / 2);
    if (is_rest) return interrupted() ? exit_interrupted : exit_done;
    const std::string losses = profile_losses(taken, text);
    if (terminal) {
      const auto taken_lines =
          4 + static_cast<std::size_t>(std::count(losses.begin(), losses.end(), '\n'));
      text.max_rows = std::max<std::size_t>(terminal_size().lines, taken_lines + 4) - taken_lines;
      if (print_notes(profiling) != 0) live.leave();
    }
    const std::string table =
        profile_head(taken, text) +
        top_text(request.view.top, profile::top(taken, request.view.top), style, text) + losses;
    shown = true;
    if (!(terminal ? live.show(table) : print(table + '\n'))) return exit_done;
    if (*over) return interrupted() ? exit_interrupted : exit_done;
  }
}

}  // namespace vitrine::cli
