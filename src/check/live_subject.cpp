#include "check/live_subject.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace vitrine::check {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds pause{50};            // between two looks
constexpr milliseconds longest_window{200};  // of samples, between two looks at the context

class Watcher {
 public:
  Watcher(target::Process& process, ContextWatch& context, ProcessSubject& into,
          const std::atomic<bool>* stop)
      : process_(process), context_(context), into_(into), stop_(stop) {}

  /// One look at the least, however short `duration` is.
  Result<void> watch(observe::Mode mode, milliseconds duration) {
    observe::LabelOptions options;
    options.mode = mode;
    options.stop = stop_;
    auto reader = observe::LabelReader::open(process_.pid(), options);
    if (!reader) {
      if (mode == observe::Mode::ebpf) {
        into_.notes.add("no samples were taken: " + reader.error().message);
        return {};
      }
      return tl::unexpected<Error>(std::move(reader.error()));
    }
    const auto end = Clock::now() + duration;
    do {
      TRY(context_.look());
      const auto snapshot = (*reader)->read(std::min(longest_window, duration));
      into_.definitions = (*reader)->definitions();
      if (snapshot) {
        into_.reader_problem.clear();
        take(*snapshot);
      } else if (snapshot.error().code == ErrorCode::failed) {
        into_.reader_problem = snapshot.error().message;  // it may publish later
      } else {
        return tl::unexpected<Error>(snapshot.error());
      }
      if (mode == observe::Mode::snapshot || !snapshot) std::this_thread::sleep_for(pause);
    } while (Clock::now() < end && !(stop_ && stop_->load()));
    return {};
  }

 private:
  void take(const observe::Snapshot& snapshot) {
    into_.notes.add(snapshot.notes);
    for (const observe::ThreadLabels& reading : snapshot.threads)
      if (const auto profile = profile_of(reading.format)) take(reading, *profile);
  }

  void take(const observe::ThreadLabels& reading, Profile profile) {
    ProfileReadings& seen = into_.readings[profile];
    // A reading that may mix two sets says nothing of its publisher.
    if (reading.set && reading.evidence == observe::Evidence::unproven) {
      ++seen.unproven;
      return;
    }
    seen.threads.insert(reading.tid);
    ++seen.readings;
    if (reading.set && (!reading.set->labels.empty() || reading.set->trace)) ++seen.in_force;
    for (const auto rules : {live_label_rules(), live_record_rules()})
      for (const ReadingRule& rule : rules) {
        if (!rule.requirement.profiles.has(profile)) continue;
        const auto broken = rule.broken(reading);
        if (!broken) continue;
        LiveCount& count = into_.broken[{&rule, profile}];
        count.threads.insert(reading.tid);
        if (count.violations++ == 0)
          count.example =
              fmt::format("thread {} ({}): {}", reading.tid, reading.comm, text_of(*broken));
      }
  }

  std::string text_of(const Breach& breach) const {
    if (const auto* text = std::get_if<std::string>(&breach)) return *text;
    const format::Label& label = *std::get<const format::Label*>(breach);
    const bool hidden = into_.redaction.covers_label(label.key);
    return label.key + '=' + (hidden ? into_.redaction.replacement(label.value) : label.value);
  }

  target::Process& process_;
  ContextWatch& context_;
  ProcessSubject& into_;
  const std::atomic<bool>* stop_;
};

}  // namespace

std::optional<Profile> profile_of(format::Format format) {
  switch (format) {
    case format::Format::custom_labels_v0:
      return Profile::custom_labels_v0;
    case format::Format::custom_labels_v1:
      return Profile::custom_labels_v1;
    case format::Format::otel_thread_ctx_v1:
      return Profile::otep_4947;
    default:
      return std::nullopt;
  }
}

Result<void> watch(target::Process& process, ContextWatch& context, ProcessSubject& into,
                   milliseconds duration, bool sample, const std::atomic<bool>* stop) {
  Watcher watcher(process, context, into, stop);
  auto seen = watcher.watch(observe::Mode::snapshot, sample ? duration / 2 : duration);
  if (!seen || !sample || into.readings.empty()) return seen;
  return watcher.watch(observe::Mode::ebpf, duration / 2);
}

}  // namespace vitrine::check
