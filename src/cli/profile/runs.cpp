#include "cli/profile/runs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "cli/profile/outputs.hpp"
#include "cli/profile/text.hpp"
#include "cli/shell/report.hpp"

namespace vitrine::cli {

void ProfileWriter::begin(std::function<profile::Profile()> take) {
  outcome_ =
      std::async(std::launch::async, [this, take = std::move(take)] { return write(take()); });
}

bool ProfileWriter::busy() const {
  return outcome_.valid() &&
         outcome_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

bool ProfileWriter::wait() {
  if (!outcome_.valid()) return !failed_;
  const Outcome outcome = outcome_.get();
  losses_.events += outcome.losses.events;
  losses_.unnamed += outcome.losses.unnamed;
  for (const Error& error : outcome.errors) {
    report(error);
    failed_ = true;
  }
  return !failed_;
}

ProfileWriter::Outcome ProfileWriter::write(const profile::Profile& profile) const {
  Outcome outcome{{}, profile.losses};
  if (profile.samples.empty()) return outcome;
  if (sender_ != nullptr) sender_->send(profile);
  for (ProfileOutput output : outputs_) {
    output.path = path_at(output.path, profile.start_ns);
    if (auto written = write_profile(profile, output, options_); !written)
      outcome.errors.push_back(std::move(written.error()));
  }
  return outcome;
}

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds poll_time{100};
constexpr milliseconds shortest_naming{100}, longest_naming{60'000};
/// Without --duration and --naming.
constexpr milliseconds usual_naming{30'000};

/// When all is over at the latest.
std::optional<Clock::time_point> end_of(const ProfileRequest& request) {
  if (!request.time) return std::nullopt;
  return Clock::now() + *request.time;
}

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
  for (;;) {
    const bool over = interrupted() || profiling.ended() || (end && Clock::now() >= *end);
    if (over) return true;
    if (until && Clock::now() >= *until) return false;
    auto next = Clock::now() + poll_time;
    for (const auto& limit : {end, until})
      if (limit) next = std::min(next, *limit);
    const auto left = std::chrono::ceil<milliseconds>(next - Clock::now());
    TRY(profiling.poll(std::max(left, milliseconds(0))));
    each();
  }
}

/// Returns how many notes there were.
std::size_t tell(observe::Profiling& profiling) {
  const std::vector<std::string> notes = profiling.take_notes();
  for (const std::string& text : notes) note(text);
  return notes.size();
}

/// Where it goes on for ever, and processes come and go, all of them would fill the journal.
void tell_some(observe::Profiling& profiling) {
  constexpr std::size_t most = 5;
  const std::vector<std::string> notes = profiling.take_notes();
  for (std::size_t i = 0; i < std::min(most, notes.size()); ++i) note(notes[i]);
  if (notes.size() > most) note(fmt::format("and {} more notes", notes.size() - most));
}

/// False when nobody reads any more.
bool print(std::string_view text) {
  LineOutput output;
  output.text() = text;
  return output.flush();
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

/// Below the summary.
void print_hint(const profile::Profile& taken, const ProfileRequest& request) {
  if (taken.samples.empty())
    note(request.options.off_cpu ? "no thread ran, and none waited as long as --min-block requires"
                                 : "no thread ran: use --off-cpu to see what they wait for");
  else
    print_error("\n-o profile.html writes a page with flame graphs\n");
}

}  // namespace

int profile_once(observe::Profiling& profiling, const ProfileRequest& request,
                 ProfileSender* sender) {
  tell(profiling);
  Progress progress("profiling " + request.subject(), request.time);
  const auto polled =
      sample(profiling, end_of(request), std::nullopt, [&] { progress.show(profiling.waiting()); });
  progress.clear();
  if (!polled) return report(polled.error());
  profiling.stop();
  const int status = interrupted() ? exit_interrupted : exit_done;
  const profile::Profile taken =
      request.view.select(profiling.take_to_name(naming_time(request))());
  tell(profiling);
  const int shown = show_profile(taken, request.view, title_of(taken, request), sender);
  if (shown != exit_done) return shown;
  if (request.view.top.empty() && request.view.outputs.empty() && sender == nullptr)
    print_hint(taken, request);
  return status;
}

int profile_continuously(observe::Profiling& profiling, const ProfileRequest& request,
                         ProfileSender* sender) {
  profile::EncodeOptions encoding = request.view.encoding;
  encoding.title = request.subject();
  ProfileWriter writer(request.view.outputs, encoding, sender);
  Progress progress("profiling " + request.subject(), std::nullopt);
  const auto end = end_of(request);
  bool told = false;
  // A part of the interval: the profile is written before the next one is due.
  const auto naming = request.naming.value_or(
      std::clamp<milliseconds>(*request.every / 2, shortest_naming, longest_naming));
  auto next = Clock::now();
  for (bool over = false; !over;) {
    next = std::max(next + *request.every, Clock::now());
    do {  // goes on sampling while the one before is still written
      const auto sampled =
          sample(profiling, end,
                 std::max(next, Clock::now() + (writer.busy() ? poll_time : milliseconds(0))),
                 [&] { progress.show(profiling.waiting()); });
      if (!sampled) return report(sampled.error());
      over = *sampled;
    } while (!over && writer.busy());
    if (over) profiling.stop();
    writer.wait();
    progress.clear();
    tell_some(profiling);
    if (sender != nullptr) sender->print_notes();
    if (!std::exchange(told, told || writer.losses().events != 0) && told)
      note("samples are lost because the buffer is full");
    writer.begin(
        [&request, take = profiling.take_to_name(naming)] { return request.view.select(take()); });
  }
  const bool written = writer.wait();
  if (const auto lost = writer.losses().events; lost != 0)
    note(fmt::format("{} samples were lost in total", lost));
  if (const auto unnamed = writer.losses().unnamed; unnamed != 0)
    note(fmt::format("{} locations of profiles were not named in time", unnamed));
  return written ? exit_done : exit_failed;  // stopped as it was meant to be
}

int profile_watching(observe::Profiling& profiling, const ProfileRequest& request) {
  LiveText live;
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  const Style style = Style::of_stdout();
  ProfileTextOptions text{.utf8 = shows_utf8()};
  bool shown = false;
  const auto end = end_of(request);
  for (;;) {
    const auto over = sample(profiling, end, Clock::now() + *request.refreshing, [] {});
    if (!over) return report(over.error());
    if (*over) profiling.stop();
    const profile::Profile taken =
        request.view.select(profiling.take_to_name(*request.refreshing / 2)());
    // A moment at the end would take the last whole interval away.
    const bool is_rest =
        shown && *over &&
        taken.duration_ns <
            static_cast<std::uint64_t>(std::chrono::nanoseconds(*request.refreshing).count() / 2);
    if (is_rest) return interrupted() ? exit_interrupted : exit_done;
    if (terminal) {
      text.max_rows = std::max<std::size_t>(terminal_size().lines, 8) - 4;
      if (tell(profiling) != 0) live.leave();
    }
    const std::string table =
        profile_head(taken, text) +
        top_text(request.view.top, profile::top(taken, request.view.top), style, text);
    shown = true;
    if (!(terminal ? live.show(table) : print(table + '\n'))) return exit_done;
    if (*over) return interrupted() ? exit_interrupted : exit_done;
  }
}

}  // namespace vitrine::cli
