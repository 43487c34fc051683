#include "agent/continuous.hpp"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace vitrine::agent {

using std::chrono::milliseconds;

void ProfileWriter::begin(std::function<profile::Profile()> take) {
  // Where no thread can be started, wait() does it.
  outcome_ = std::async(std::launch::async | std::launch::deferred, [this, take = std::move(take)] {
    Outcome outcome = write(take());
    ::malloc_trim(0);  // what the profile has left is the kernel's again
    return outcome;
  });
}

bool ProfileWriter::busy() const {
  return outcome_.valid() &&
         outcome_.wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
}

std::vector<Error> ProfileWriter::wait() {
  if (!outcome_.valid()) return {};
  Outcome outcome;
  try {
    outcome = outcome_.get();
  } catch (const std::bad_alloc&) {
    outcome.errors.push_back(
        {ErrorCode::failed, "not enough memory for a profile: it is left out", {}});
  }
  outcome.counts.unwritten = outcome.errors.size();
  counts_ += outcome.counts;
  return std::move(outcome.errors);
}

ProfileWriter::Outcome ProfileWriter::write(const profile::Profile& profile) {
  Outcome outcome;
  outcome.counts.lost = profile.losses.events;
  outcome.counts.unnamed = profile.losses.unnamed;
  if (profile.samples.empty()) return outcome;
  outcome.counts.profiles = 1;
  outcome.counts.samples = profile::number_of_samples(profile);
  if (sender_ != nullptr) sender_->send(profile);
  for (ProfileOutput output : outputs_) {
    output.path = path_at(output.path, profile.start_ns);
    if (auto written = write_profile(profile, output, options_); !written) {
      if (written.error().code == ErrorCode::interrupted) has_reader_ = false;
      outcome.errors.push_back(std::move(written.error()));
    }
  }
  return outcome;
}

Result<bool> sample_until(observe::Profiling& profiling, std::optional<Clock::time_point> end,
                          std::optional<Clock::time_point> until,
                          const std::function<bool()>& is_over, milliseconds pause) {
  for (;;) {
    if (is_over() || profiling.ended() || (end && Clock::now() >= *end)) return true;
    if (until && Clock::now() >= *until) return false;
    auto next = Clock::now() + pause;
    for (const auto& limit : {end, until})
      if (limit) next = std::min(next, *limit);
    const auto left = std::chrono::ceil<milliseconds>(next - Clock::now());
    TRY(profiling.poll(std::max(left, milliseconds(0))));
  }
}

namespace {

constexpr milliseconds shortest_naming{100}, longest_naming{60'000};

/// Where it goes on for ever, and processes come and go, all of them would fill the journal.
std::vector<std::string> some_of(std::vector<std::string> notes) {
  constexpr std::size_t most = 5;
  if (notes.size() <= most) return notes;
  const std::size_t more = notes.size() - most;
  notes.resize(most);
  notes.push_back(fmt::format("and {} more notes", more));
  return notes;
}

/// Threads that begin from now on have no more than two heaps together, and what is large is the
/// kernel's again at once: malloc keeps for each thread what a profile has taken there, though the
/// next one is made by another.
void keep_memory_small() {
  constexpr int heaps = 2, large = 256 << 10, unused = 1 << 20;
  ::mallopt(M_ARENA_MAX, heaps);
  ::mallopt(M_MMAP_THRESHOLD, large);
  ::mallopt(M_TRIM_THRESHOLD, unused);
}

}  // namespace

Result<void> profile_continuously(observe::Profiling& profiling, ProfileWriter& writer,
                                  const ContinuousOptions& options, ContinuousListener& listener) {
  keep_memory_small();
  // A part of the interval: the profile is written before the next one is due.
  const auto naming = options.naming.value_or(
      std::clamp<milliseconds>(options.every / 2, shortest_naming, longest_naming));
  auto next = Clock::now();
  for (bool over = false; !over;) {
    next = std::max(next + options.every, Clock::now());
    do {  // goes on sampling while the one before is still written
      over = TRY(sample_until(
          profiling, options.end,
          std::max(next, Clock::now() + (writer.busy() ? poll_time : milliseconds(0))),
          [&] { return listener.is_over(profiling.waiting()); }, continuous_poll_time));
    } while (!over && writer.busy());
    if (over) profiling.stop();
    const std::vector<Error> errors = writer.wait();
    std::vector<std::string> notes = some_of(profiling.take_notes());
    listener.report(notes, errors);
    writer.begin([select = options.select, take = profiling.take_to_name(naming)] {
      return select ? select(take()) : take();
    });
  }
  return {};
}

}  // namespace vitrine::agent
