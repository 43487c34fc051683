// The process context of a live process: its mapping, header, payload and keys.

#include "check/context.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>

#include "abi/process_context.hpp"
#include "abi/thread_context.hpp"
#include "base/clock.hpp"
#include "base/text.hpp"
#include "check/rule.hpp"
#include "observe/events/event_labels.hpp"
#include "target/maps.hpp"
#include "target/proc_file.hpp"

namespace vitrine::check {
namespace {

constexpr std::size_t status_bytes = 64 * 1024;
constexpr std::uint64_t second = 1'000'000'000;

/// NSpid of its status: its id in our namespace, then in those below.
std::vector<std::int64_t> pids_of(const target::Process& process) {
  std::vector<std::int64_t> pids{process.pid()};
  const auto status = target::read_file_at(process.proc_dir(), "status", status_bytes);
  const auto field = status ? target::status_field(*status, "NSpid") : std::nullopt;
  if (!field) return pids;
  const char* at = field->data();
  const char* end = at + field->size();
  while (at != end) {
    std::int64_t pid = 0;
    const auto [stop, error] = std::from_chars(at, end, pid);
    if (error == std::errc()) pids.push_back(pid);
    at = stop == at ? at + 1 : stop;
  }
  return pids;
}

/// What of `before` is not the same in `now`: names may be added to a key map, not changed.
std::string changed_name(const format::KeyMap& before, const format::KeyMap& now) {
  for (std::size_t i = 0; i < before.names.size(); ++i) {
    if (i < now.names.size() && before.names[i] == now.names[i]) continue;
    return fmt::format("key {} was {} and is {}", i, before.names[i].value_or("without a name"),
                       i < now.names.size() ? now.names[i].value_or("without a name") : "gone");
  }
  return {};
}

}  // namespace

const ContextCandidate* ContextSubject::chosen() const {
  const auto good = std::ranges::find_if(candidates, [&](const ContextCandidate& one) {
    return state ? one.mapping.start == state->header : one.header.has_value();
  });
  return good == candidates.end() ? nullptr : &*good;
}

ContextWatch::ContextWatch(target::Process& process) : process_(process) {
  subject_.tick_ns = second / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  const std::int64_t to_its_clock =
      clock_offsets_of(process.proc_dir()).boottime_ns - own_clock_offsets().boottime_ns;
  to_its_clock_ns_ = static_cast<std::uint64_t>(to_its_clock);
  subject_.started_ns = process.identity().start_time * subject_.tick_ns + to_its_clock_ns_;
  subject_.pids = pids_of(process);
}

Result<void> ContextWatch::look() {
  find_candidates();
  // A new reader each time: one that has read takes an equal stamp for an equal content.
  const auto reader = observe::ContextReader::of(process_);
  const auto state = reader->refresh();
  subject_.seen_ns = now_ns(CLOCK_BOOTTIME) + to_its_clock_ns_;
  ++subject_.looks;
  TRY(process_.verify());
  subject_.problem.reset();
  if (!state) {
    if (state.error().code == ErrorCode::not_permitted) return tl::unexpected(state.error());
    subject_.problem = state.error();
  } else if (*state != nullptr) {
    take(**state);
  }
  return {};
}

void ContextWatch::find_candidates() {
  const auto found = target::context_mappings(process_.proc_dir());
  if (!found) {
    subject_.search_problem = found.error().message;
    return;
  }
  subject_.search_problem = {};
  std::vector<ContextCandidate> candidates;
  for (const target::Mapping& mapping : found->mappings) {
    ContextCandidate one{mapping, format::read_context_header(process_.memory(), mapping.start),
                         std::nullopt};
    const auto known = std::ranges::find_if(subject_.candidates, [&](const ContextCandidate& old) {
      return old.mapping.start == mapping.start;
    });
    if (known != subject_.candidates.end()) {
      one.forked = known->forked;
    } else if (const auto flags = target::mapping_flags(process_.proc_dir(), mapping.start)) {
      one.forked = std::ranges::count(*flags, target::flag_not_forked) == 0;
    }
    candidates.push_back(std::move(one));
  }
  if (!candidates.empty()) subject_.candidates = std::move(candidates);
}

void ContextWatch::take(const observe::ContextState& state) {
  auto schema = format::schema_of(state.context);
  if (const auto& before = subject_.state; before && !(before->context == state.context)) {
    ++subject_.updates;
    const bool same_stamp = before->header == state.header &&
                            before->context.published_at_ns == state.context.published_at_ns;
    if (same_stamp && state.context.version >= 2)
      subject_.unstamped_change =
          fmt::format("both were published at {} ns", state.context.published_at_ns);
    if (subject_.schema && schema && subject_.key_map_change.empty())
      subject_.key_map_change = changed_name(subject_.schema->keys, schema->keys);
  }
  subject_.schema = std::move(schema);
  const auto has = [](const format::KeyValueList& list) {
    return format::find(list, abi::thread_context::schema_version_key) != nullptr ||
           format::find(list, abi::thread_context::key_map_key) != nullptr;
  };
  subject_.schema_in_resource = has(state.context.resource) && !has(state.context.attributes);
  subject_.state = state;
}

namespace {

constexpr std::uint32_t ebpf_profiler_bytes = 64 * 1024;

Outcome none() {
  return does_not_apply("the process has no readable context");
}

std::size_t valid_headers(const ContextSubject& subject) {
  return static_cast<std::size_t>(std::ranges::count_if(
      subject.candidates, [](const ContextCandidate& one) { return one.header.has_value(); }));
}

/// A mapping with the signature, and a version that vitrine does not read; null: there is none.
const ContextCandidate* unknown_version(const ContextSubject& subject) {
  const auto found = std::ranges::find_if(subject.candidates, [](const ContextCandidate& one) {
    return !one.header && one.header.error().code == ErrorCode::unsupported;
  });
  return found == subject.candidates.end() ? nullptr : &*found;
}

/// Whether a mapping has one of the names that the specification gives. Readers that know no others would not find it.
bool is_named_as_specified(const std::string& mapping) {
  const std::string shown = target::without_deleted(mapping);
  const std::string name = abi::process_context::mapping_name;
  return shown == "/memfd:" + name || shown == "[anon_shmem:" + name + "]" ||
         shown == "[anon:" + name + "]";
}

Outcome published(const ContextSubject& subject) {
  if (!subject.search_problem.empty()) return undecided(subject.search_problem);
  const ContextCandidate* one = subject.chosen();
  if (one == nullptr || !one->header) one = unknown_version(subject);
  if (one != nullptr && !is_named_as_specified(one->mapping.name))
    return fails(fmt::format("the mapping with the signature, at {}, is named {}",
                             hex(one->mapping.start), one->mapping.name),
                 "name it OTEL_CTX, in memfd_create and prctl(PR_SET_VMA_ANON_NAME)");
  if (one != nullptr)
    return holds(fmt::format("{} at {}", one->mapping.name, hex(one->mapping.start)));
  if (subject.candidates.empty()) return fails("no mapping has the name OTEL_CTX");
  return fails(subject.candidates.front().header.error().message);
}

Outcome version(const ContextSubject& subject) {
  const ContextCandidate* one = subject.chosen();
  if (one == nullptr || !one->header) {
    one = unknown_version(subject);
    return one == nullptr ? none() : fails(one->header.error().message);
  }
  const auto text = fmt::format("it is {}", one->header->version);
  return one->header->version == abi::process_context::version ? holds(text) : fails(text);
}

/// Whether the last look met an update.
bool is_changing(const ContextSubject& subject) {
  return subject.problem && subject.problem->code == ErrorCode::changing;
}

Outcome stamped(const ContextSubject& subject) {
  const ContextCandidate* one = subject.chosen();
  if (one == nullptr || !one->header || one->header->version == abi::process_context::version_1)
    return none();
  if (subject.state) return holds(fmt::format("{} ns", subject.state->context.published_at_ns));
  if (one->header->stamp == 0 || is_changing(subject))
    return fails("an update was in progress during the whole observation");
  return holds(fmt::format("{} ns", one->header->stamp));
}

Outcome payload(const ContextSubject& subject) {
  if (valid_headers(subject) == 0) return none();
  if (subject.state && (!subject.problem || is_changing(subject)))
    return holds(fmt::format("{} resource attributes, {} attributes",
                             subject.state->context.resource.size(),
                             subject.state->context.attributes.size()));
  if (!subject.problem) return none();
  if (is_changing(subject)) return undecided(subject.problem->message);
  return fails(subject.problem->message);
}

Outcome wrapped(const ContextSubject& subject) {
  if (!subject.state || subject.state->context.version == 1) return none();
  return subject.state->context.bare_resource ? fails("it is a Resource by itself")
                                              : holds("it is a ProcessContext");
}

Outcome payload_size(const ContextSubject& subject) {
  const ContextCandidate* one = subject.chosen();
  if (one == nullptr || !one->header) return none();
  const auto text = fmt::format("{} bytes", one->header->payload_size);
  return one->header->payload_size <= ebpf_profiler_bytes ? holds(text) : fails(text);
}

Outcome single(const ContextSubject& subject) {
  const std::size_t count = valid_headers(subject);
  if (count == 0) return none();
  return count == 1 ? holds("one") : fails(fmt::format("{} mappings have a context", count));
}

Outcome not_forked(const ContextSubject& subject) {
  const ContextCandidate* one = subject.chosen();
  if (one == nullptr || !one->header) return none();
  if (!one->forked) return undecided("this kernel does not report what a fork copies");
  return *one->forked ? fails("a child made by fork gets a copy, and publishes it as its own")
                      : holds("a fork does not copy it");
}

// A context that was published before its process began is its parent's: it came by fork. Stamps of
// other clocks are far later than any start.
Outcome own(const ContextSubject& subject) {
  if (!subject.state || subject.state->context.published_at_ns == 0) return none();
  const std::uint64_t stamp = subject.state->context.published_at_ns;
  if (stamp + subject.tick_ns >= subject.started_ns)
    return holds("it was published in its lifetime");
  return fails(
      fmt::format("it was published {} ms before the process began: by its parent, before "
                  "a fork",
                  (subject.started_ns - stamp) / 1'000'000));
}

Outcome stamp_clock(const ContextSubject& subject) {
  if (!subject.state || subject.state->context.published_at_ns == 0) return none();
  const std::uint64_t stamp = subject.state->context.published_at_ns;
  return stamp <= subject.seen_ns ? holds(fmt::format("{} ns since boot", stamp))
                                  : fails(fmt::format("{} ns is in the future", stamp));
}

Outcome restamped(const ContextSubject& subject) {
  if (!subject.state) return none();
  if (!subject.unstamped_change.empty())
    return fails("its content changed without a new timestamp: " + subject.unstamped_change);
  if (subject.updates == 0)
    return does_not_apply(fmt::format("no update was seen in {} readings", subject.looks));
  return holds(fmt::format("{} updates", subject.updates));
}

/// Asks `visit` of each attribute at the top, of the resource and of the context.
template <class Visit>
void each_attribute(const ContextSubject& subject, Visit visit) {
  for (const auto* list : {&subject.state->context.resource, &subject.state->context.attributes})
    for (const format::KeyValue& one : *list) visit(one);
}

bool all_text_utf8(const format::AnyValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.data)) return is_utf8(*text);
  if (const auto* array = std::get_if<format::ValueArray>(&value.data))
    return std::ranges::all_of(*array, all_text_utf8);
  if (const auto* list = std::get_if<format::KeyValueList>(&value.data))
    return std::ranges::all_of(*list, [](const format::KeyValue& one) {
      return is_utf8(one.key) && all_text_utf8(one.value);
    });
  return true;
}

Outcome utf8(const ContextSubject& subject) {
  if (!subject.state) return none();
  Counted attributes("attributes");
  each_attribute(subject, [&](const format::KeyValue& one) {
    if (is_utf8(one.key) && all_text_utf8(one.value))
      attributes.good();
    else
      attributes.bad(one.key);
  });
  return attributes.outcome();
}

Outcome keys_unique(const ContextSubject& subject) {
  if (!subject.state) return none();
  Counted attributes("attributes");
  for (const auto* list : {&subject.state->context.resource, &subject.state->context.attributes}) {
    std::set<std::string_view> seen;
    for (const format::KeyValue& one : *list) {
      if (!one.key.empty() && seen.insert(one.key).second)
        attributes.good();
      else
        attributes.bad(one.key.empty() ? "an empty key" : one.key);
    }
  }
  return attributes.outcome();
}

Outcome service_name(const ContextSubject& subject) {
  if (!subject.state) return none();
  const std::string* name = format::find_text(subject.state->context.resource, "service.name");
  if (name == nullptr) return fails("the resource has no service.name of type text");
  return name->empty() ? fails("service.name is empty")
                       : holds(subject.shown("service.name", *name));
}

/// Keys of OpenTelemetry's semantic conventions that everybody reads, and whether they are numbers.
constexpr std::pair<std::string_view, bool> conventions[] = {
    {"service.name", false},
    {"service.namespace", false},
    {"service.version", false},
    {"service.instance.id", false},
    {"telemetry.sdk.name", false},
    {"telemetry.sdk.language", false},
    {"telemetry.sdk.version", false},
    {"deployment.environment.name", false},
    {"host.name", false},
    {"host.id", false},
    {"container.id", false},
    {"process.pid", true},
    {"process.parent_pid", true},
    {"process.executable.name", false},
    {"process.executable.path", false},
};

Outcome conventional_types(const ContextSubject& subject) {
  if (!subject.state) return none();
  Counted attributes("attributes of the conventions");
  each_attribute(subject, [&](const format::KeyValue& one) {
    const auto* known = std::ranges::find(conventions, std::string_view(one.key),
                                          [](const auto& entry) { return entry.first; });
    if (known == std::ranges::end(conventions)) return;
    const bool number = std::holds_alternative<std::int64_t>(one.value.data);
    const bool text = std::holds_alternative<std::string>(one.value.data);
    if (known->second ? number : text)
      attributes.good();
    else
      attributes.bad(fmt::format("{} is not {}", one.key, known->second ? "integer" : "text"));
  });
  return attributes.outcome();
}

Outcome pid_right(const ContextSubject& subject) {
  if (!subject.state) return none();
  const format::AnyValue* value = format::find(subject.state->context.resource, "process.pid");
  const auto* pid = value ? std::get_if<std::int64_t>(&value->data) : nullptr;
  if (pid == nullptr) return does_not_apply("the resource has no process.pid");
  const std::string shown = subject.shown("process.pid", std::to_string(*pid));
  return std::ranges::count(subject.pids, *pid) != 0
             ? holds(shown)
             : fails(fmt::format("process.pid is {}, of another process", shown));
}

constexpr std::string_view ebpf_profiler = "OpenTelemetry eBPF profiler";

constexpr Rule<ContextSubject> process_context_table[] = {
    {{"otep-4719.published", otep_4719, required,
      "The process has a mapping named OTEL_CTX, readable and not executable, with the signature",
      "OTEP-4719: Publication", "publish it: vitrine::context::publish, or an OpenTelemetry SDK",
      every_reader},
     published},
    {{"otep-4719.version", otep_4719, required, "The header's version is 2", "OTEP-4719: Header",
      "use a publisher of 2026 or later", every_reader},
     version},
    {{"otep-4719.stamp", otep_4719, required,
      "The header has a timestamp: no update stays unfinished", "OTEP-4719: Updating",
      "write the timestamp last, even if the update fails", every_reader},
     stamped},
    {{"otep-4719.payload", otep_4719, required, "The payload is readable, and valid protobuf",
      "OTEP-4719: Payload", "free an old payload after the new header is complete", every_reader},
     payload},
    {{"otep-4719.wrapped", otep_4719, required,
      "The payload is a ProcessContext, not a bare Resource",
      "opentelemetry-proto 1.11.0, processcontext", "use a publisher of February 2026 or later",
      ebpf_profiler},
     wrapped},
    {{"otep-4719.payload-size", otep_4719, advised, "The payload has at most 64 KiB",
      "no specification: a limit of a reader", "omit large attributes", ebpf_profiler},
     payload_size},
    {{"otep-4719.single", otep_4719, required, "The process has one context",
      "OTEP-4719: Publication",
      "publish from one place: one library, once, with one copy of the library in the process",
      "all readers: the chosen context is unspecified"},
     single},
    {{"otep-4719.not-forked", otep_4719, required,
      "A fork does not copy the mapping (MADV_DONTFORK)", "OTEP-4719: Forks",
      "call madvise(MADV_DONTFORK) before naming the mapping OTEL_CTX",
      "all readers: they attribute the copy to the child"},
     not_forked},
    {{"otep-4719.own", otep_4719, required, "The context is the process's own, not its parent's",
      "OTEP-4719: Forks",
      "publish again in the child (pthread_atfork), and set MADV_DONTFORK in the parent",
      "all readers: they attribute it to the child"},
     own},
    {{"otep-4719.clock", otep_4719, advised, "The timestamp is from CLOCK_BOOTTIME",
      "OTEP-4719: Header", "take the timestamp from CLOCK_BOOTTIME", ""},
     stamp_clock},
    {{"otep-4719.restamped", otep_4719, required, "Each update has a new timestamp",
      "OTEP-4719: Updating", "write max(now, old timestamp + 1)",
      "all readers: they keep the old content"},
     restamped},
    {{"otep-4719.utf8", otep_4719, required, "All keys and text values are valid UTF-8",
      "protobuf: string", "truncate text between characters, or use bytes", every_reader},
     utf8},
    {{"otep-4719.keys-unique", otep_4719, required, "No key is empty or repeated",
      "OpenTelemetry specification, Attribute collections", "set each key once", ""},
     keys_unique},
    {{"otep-4719.service-name", otep_4719, required, "The resource has a service.name",
      "OpenTelemetry semantic conventions, service", "set service.name", ""},
     service_name},
    {{"otep-4719.conventions", otep_4719, required,
      "Attributes of the semantic conventions have their types",
      "OpenTelemetry semantic conventions", "publish text as text, and process IDs as integers",
      ""},
     conventional_types},
    {{"otep-4719.pid", otep_4719, required, "process.pid, if present, is the ID of the process",
      "OpenTelemetry semantic conventions, process", "publish again after fork", ""},
     pid_right},
};

}  // namespace

std::span<const Rule<ContextSubject>> process_context_rules() {
  return process_context_table;
}

}  // namespace vitrine::check
