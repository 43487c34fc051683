// Labels of custom-labels, as threads of a live process have them in force.

#include "check/live.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "abi/thread_context.hpp"
#include "base/text.hpp"
#include "check/rule.hpp"

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
    // A reading that may mix two sets proves nothing about its publisher, whatever it found. One that did not
    // take place does not either.
    if (reading.evidence == observe::Evidence::unproven) {
      ++seen.unproven;
      return;
    }
    seen.threads.insert(reading.tid);
    ++seen.readings;
    if (reading.set &&
        (!reading.set->labels.empty() || reading.set->trace || reading.set->record_bytes != 0))
      ++seen.in_force;
    if (reading.set && reading.set->record_bytes > sizeof(abi::thread_context::Record))
      into_.with_attributes.insert(reading.module);
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

namespace {

using format::SetRule;
using observe::ThreadLabels;
using Broken = std::optional<Breach>;

// What Parca's profiler has room for (its native_custom_labels.h).
constexpr std::size_t parca_labels = 10, parca_key = 25, parca_value = 53;

Broken value_present(const ThreadLabels& reading) {
  return first_defect(reading, SetRule::value_present);
}

Broken key_readable(const ThreadLabels& reading) {
  const auto nothing = first_defect(reading, SetRule::key_readable);
  return nothing ? nothing : unreadable_part(reading, "key");
}

Broken value_readable(const ThreadLabels& reading) {
  return unreadable_part(reading, "value");
}

Broken repeated(const ThreadLabels& reading) {
  if (!reading.set || reading.set->repeated == 0) return std::nullopt;
  return fmt::format("{} entries have the key of an earlier one", reading.set->repeated);
}

Broken within_parca(const ThreadLabels& reading) {
  if (!reading.set) return std::nullopt;
  const auto& labels = reading.set->labels;
  if (labels.size() > parca_labels) return fmt::format("{} labels", labels.size());
  const auto found = std::ranges::find_if(labels, [](const format::Label& one) {
    return one.key.size() > parca_key || one.value.size() > parca_value;
  });
  if (found == labels.end()) return std::nullopt;
  return fmt::format("{}: a key of {} bytes, a value of {}", found->key, found->key.size(),
                     found->value.size());
}

Broken text(const ThreadLabels& reading) {
  if (!reading.set) return std::nullopt;
  const auto is_text = [](const std::string& bytes) {
    return is_utf8(bytes) && bytes.find('\0') == bytes.npos;
  };
  const auto& labels = reading.set->labels;
  const auto found = std::ranges::find_if(
      labels, [&](const format::Label& one) { return !is_text(one.key) || !is_text(one.value); });
  if (found == labels.end()) return std::nullopt;
  return &*found;
}

constexpr std::string_view exposed_symbols =
    "custom-labels-v0.md, custom-labels-v1.md: Interpretation of data";

constexpr ReadingRule live_label_table[] = {
    {{"labels.readable", labels_profiles, required,
      "The slot, the set and its array of labels are readable in every thread", exposed_symbols,
      "put a set in force after it is complete; remove it before it is freed", "all"},
     unreadable},
    {{"labels.value-present", labels_profiles, required, "No label's value is a null pointer",
      exposed_symbols, "point an empty value to any byte, with length 0", "all"},
     value_present},
    {{"labels.key-readable", labels_profiles, required, "Every key points to readable bytes",
      exposed_symbols, "free a key after its label is no longer in force", "all"},
     key_readable},
    {{"labels.value-readable", labels_profiles, required, "Every value points to readable bytes",
      exposed_symbols,
      "free a value after its label is no longer in force; give the length that it has", "all"},
     value_readable},
    {{"labels.whole", labels_profiles, advised,
      "Every set fits the limits of readers: 256 labels, keys of 1 KiB, values of 16 KiB",
      "vitrine, limits", "publish fewer and shorter labels", "vitrine, context-reader"},
     cut},
    {{"labels.parca-limits", labels_profiles, advised,
      "Every set has at most 10 labels, keys of 25 bytes, values of 53",
      "no specification: a limit of a reader",
      "publish shorter labels, the most important ones first",
      "Parca's eBPF profiler: truncates silently"},
     within_parca},
    {{"labels.no-repeats", labels_profiles, advised, "No key occurs twice in a set",
      exposed_symbols, "replace a label instead of adding one: only the first one counts", ""},
     repeated},
    {{"labels.text", labels_profiles, advised, "Keys and values are UTF-8 without NULs",
      "OTLP and pprof: string", "publish text; ids as hexadecimal digits",
      "Parca's eBPF profiler, exporters to OTLP and pprof"},
     text},
};

}  // namespace

std::span<const ReadingRule> live_label_rules() {
  return live_label_table;
}

namespace {

// Thread contexts, as threads of a live process have them in force.

using format::SetRule;
using observe::ThreadLabels;
using Broken = std::optional<Breach>;

Broken valid_flag(const ThreadLabels& reading) {
  return first_defect(reading, SetRule::valid_is_boolean);
}

Broken aligned(const ThreadLabels& reading) {
  return first_defect(reading, SetRule::record_aligned);
}

Broken attributes_fit(const ThreadLabels& reading) {
  return first_defect(reading, SetRule::attributes_fit);
}

Broken key_in_map(const ThreadLabels& reading) {
  return first_defect(reading, SetRule::key_in_map);
}

Broken keys_unique(const ThreadLabels& reading) {
  return first_defect(reading, SetRule::keys_unique);
}

Broken record_size(const ThreadLabels& reading) {
  if (!reading.set || reading.set->record_bytes <= abi::thread_context::recommended_record_max)
    return std::nullopt;
  return fmt::format("{} bytes", reading.set->record_bytes);
}

Broken both_ids(const ThreadLabels& reading) {
  if (!reading.set || !reading.set->trace) return std::nullopt;
  const format::TraceContext& trace = *reading.set->trace;
  if (trace.is_valid() || trace.is_empty()) return std::nullopt;
  return is_id(trace.span_id) ? "a span id, and a trace id of zeros"
                              : "a trace id, and a span id of zeros";
}

Broken utf8(const ThreadLabels& reading) {
  if (!reading.set) return std::nullopt;
  const auto& labels = reading.set->labels;
  const auto found =
      std::ranges::find_if(labels, [](const format::Label& one) { return !is_utf8(one.value); });
  return found == labels.end() ? std::nullopt : Broken(&*found);
}

constexpr std::string_view record = "OTEP-4947: Thread record";

constexpr ReadingRule live_record_table[] = {
    {{"otep-4947.readable", otep_4947, required,
      "The slot and the record are readable in every thread", record,
      "put a record in force after it is complete; remove it before it is freed", "all"},
     unreadable},
    {{"otep-4947.valid-flag", otep_4947, required, "valid is 0 or 1", record,
      "write 1 when the record is complete, 0 before it is changed", "all"},
     valid_flag},
    {{"otep-4947.record-aligned", otep_4947, required, "Every record is aligned to 2", record,
      "align records to 8 bytes", ""},
     aligned},
    {{"otep-4947.attributes-fit", otep_4947, required,
      "The last attribute ends at attrs_size, or before", record,
      "raise attrs_size after the bytes are written, by the number of bytes written",
      "all readers: they drop the attribute"},
     attributes_fit},
    {{"otep-4947.key-in-map", otep_4947, required, "Every key index has a name in the key map",
      record, "publish the process context with a new key before the first record that uses it",
      "all readers: they drop the attribute"},
     key_in_map},
    {{"otep-4947.keys-differ", otep_4947, required,
      "No two attributes of a record have the same name", record, "assign one index to each name",
      "all readers: the chosen value is unspecified"},
     keys_unique},
    {{"otep-4947.utf8", otep_4947, required, "Every value is UTF-8", record,
      "truncate values of 255 bytes between characters",
      "all readers: they drop or change the value"},
     utf8},
    {{"otep-4947.both-ids", otep_4947, required,
      "A record has both a trace id and a span id, or neither", "W3C Trace Context",
      "write zeros for both when there is no span", ""},
     both_ids},
    {{"otep-4947.record-size", otep_4947, Weight::advised, "A record has at most 640 bytes",
      "OTEP-4947: recommended size", "publish fewer or shorter attributes",
      "context-reader, OpenTelemetry eBPF profiler"},
     record_size},
};

}  // namespace

std::span<const ReadingRule> live_record_rules() {
  return live_record_table;
}

namespace {

// What must be true of a live process before its labels can be read at all.

Outcome located(const ProcessSubject& subject, Profiles profiles) {
  if (subject.expected.common(profiles).empty()) return does_not_apply("none is expected");
  const auto found =
      std::ranges::find_if(subject.definitions, [&](const observe::DefinitionInfo& one) {
        const auto profile = profile_of(one.format);
        return profile && profiles.has(*profile);
      });
  if (found != subject.definitions.end())
    return holds(fmt::format("{} of {}", found->location, found->module));
  if (!subject.reader_problem.empty()) return fails(subject.reader_problem);
  return fails("no reader would find it");
}

Outcome in_force(const ProcessSubject& subject, Profiles profiles) {
  std::size_t readings = 0, labelled = 0, unproven = 0;
  for (const auto& [profile, seen] : subject.readings) {
    if (!profiles.has(profile)) continue;
    readings += seen.readings;
    labelled += seen.in_force;
    unproven += seen.unproven;
  }
  if (readings == 0 && unproven == 0) return does_not_apply("no thread could be read");
  const auto text =
      fmt::format("{} of {} readings; {} more could not be proven", labelled, readings, unproven);
  return labelled != 0
             ? holds(text)
             : undecided(text, "check while the program works, or with a longer --duration");
}

Outcome labels_located(const ProcessSubject& subject) {
  return located(subject, labels_profiles);
}

Outcome labels_in_force(const ProcessSubject& subject) {
  return in_force(subject, labels_profiles);
}

Outcome records_located(const ProcessSubject& subject) {
  return located(subject, otep_4947);
}

Outcome records_in_force(const ProcessSubject& subject) {
  return in_force(subject, otep_4947);
}

Outcome one_key_map(const ProcessSubject& subject) {
  const observe::DefinitionInfo* first = nullptr;
  for (const observe::DefinitionInfo& one : subject.definitions) {
    if (profile_of(one.format) != Profile::otep_4947 ||
        !subject.with_attributes.contains(one.module))
      continue;
    if (!one.key_map_problem.empty())
      return fails(fmt::format("{}: {}", one.module, one.key_map_problem));
    if (first == nullptr) first = &one;
    if (one.key_map != first->key_map)
      return fails(
          fmt::format("the names of {} are in the context at {}, those of {} in that at {}",
                      first->module, hex(first->key_map), one.module, hex(one.key_map)));
  }
  return first == nullptr ? does_not_apply("no thread had a record with attributes in force")
                          : holds("one for all of them");
}

constexpr Rule<ProcessSubject> process_table[] = {
    {{"labels.located", labels_profiles, required,
      "The slot can be located in each thread of the running process",
      "custom-labels-v1.md: Exposed symbols", "see the rules for the file that defines it", "all"},
     labels_located},
    {{"labels.in-force", labels_profiles, Weight::advised,
      "Threads had labels in force during the observation", "custom-labels-v1.md",
      "put labels in force around work", ""},
     labels_in_force},
    {{"otep-4947.located", otep_4947, required,
      "The slot can be located in each thread of the running process",
      "OTEP-4947: TLS access models that readers support",
      "see the rules for the file that defines it", "all"},
     records_located},
    {{"otep-4947.in-force", otep_4947, Weight::advised,
      "Threads had a record in force during the observation", "OTEP-4947",
      "put a record in force around work", ""},
     records_in_force},
    {{"otep-4947.one-key-map", otep_4947, required,
      "All thread contexts of the process have the names of their keys in one key map",
      "OTEP-4947: Process context attributes",
      "link one copy of the library: libcustomlabels.so for the program and its plug-ins",
      "all readers: they name values of one module by the keys of another"},
     one_key_map},
};

}  // namespace

std::span<const Rule<ProcessSubject>> process_rules() {
  return process_table;
}

}  // namespace vitrine::check
