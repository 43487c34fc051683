#include "observe/process/facts.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include "base/text.hpp"
#include "format/process_context.hpp"
#include "observe/process/cgroups.hpp"
#include "target/mapped_files.hpp"
#include "target/maps.hpp"
#include "target/proc_file.hpp"
#include "telemetry/attributes.hpp"

namespace vitrine::observe {
namespace {

using format::ContextHeader;
using Outcome = format::ContextAttempt::Outcome;
using std::chrono::microseconds;

// An update takes a publisher some microseconds; one that was killed in the middle never ends.
constexpr microseconds pauses[] = {microseconds(0), microseconds(50), microseconds(100),
                                   microseconds(200), microseconds(400)};

class ProcessSource : public ContextSource {
 public:
  explicit ProcessSource(target::Process& process) : process_(process) {}
  Memory& memory() override { return process_.memory(); }
  Result<target::ContextMappings> mappings() override {
    return target::context_mappings(process_.proc_dir());
  }
  Result<void> verify() override { return process_.verify(); }
  Error explain(Error error) override { return process_.memory().explain(std::move(error)); }

 private:
  target::Process& process_;
};

/// A ProcessSource with its process.
class OwnedProcess : public ContextSource {
 public:
  explicit OwnedProcess(target::Process process)
      : process_(std::move(process)), source_(process_) {}
  Memory& memory() override { return source_.memory(); }
  Result<target::ContextMappings> mappings() override { return source_.mappings(); }
  Result<void> verify() override { return source_.verify(); }
  Error explain(Error error) override { return source_.explain(std::move(error)); }

 private:
  target::Process process_;
  ProcessSource source_;
};

/// Version 2 first, then the newest stamp; one that is just being written comes last.
bool preferred(const ContextHeader& left, const ContextHeader& right) {
  return std::pair(left.version, left.stamp) > std::pair(right.version, right.stamp);
}

Error gave_up(Outcome outcome, const ContextHeader& header, Address at) {
  const std::string context = fmt::format("process context at {}: ", hex(at));
  switch (outcome) {
    case Outcome::updating:
      return {ErrorCode::changing, context + "an update is in progress",
              "try again; if this persists, the publisher was killed during an update"};
    case Outcome::unreadable:
      return {ErrorCode::malformed,
              context + fmt::format("its payload of {} bytes at {} is not readable",
                                    header.payload_size, hex(header.payload)),
              {}};
    default:
      return {ErrorCode::changing, context + "it changes faster than vitrine can read it",
              "try again"};
  }
}

}  // namespace

Result<std::unique_ptr<ContextReader>> ContextReader::open(int pid) {
  auto process = TRY(target::Process::open(pid));
  return std::make_unique<ContextReader>(std::make_unique<OwnedProcess>(std::move(process)));
}

std::unique_ptr<ContextReader> ContextReader::of(target::Process& process) {
  return std::make_unique<ContextReader>(std::make_unique<ProcessSource>(process));
}

Result<void> ContextReader::go_on() const {
  if (stop_ == nullptr || !stop_->load()) return {};
  return fail(ErrorCode::interrupted, "the reading was stopped");
}

/// Looks for a context among the mappings, and for what else looks like one.
Result<void> ContextReader::locate() {
  TRY(source_->verify());
  auto candidates = TRY(source_->mappings());

  place_.reset();
  notes_.clear();
  std::optional<Error> problem;
  std::optional<ContextHeader> best;
  for (const target::Mapping& mapping : candidates.mappings) {
    TRY(go_on());
    auto header = format::read_context_header(source_->memory(), mapping.start);
    if (!header) {
      Error error = source_->explain(header.error());
      const bool withheld = error.message != header.error().message;
      notes_.push_back(error.message);
      if (error.code == ErrorCode::unsupported || withheld) problem = std::move(error);
      continue;
    }
    const bool better = !best || preferred(*header, *best);
    if (best)
      notes_.push_back(
          fmt::format("process context at {}: ignored, there is another; publish from "
                      "one library, and link one copy of it into the process",
                      hex(better ? place_->header : mapping.start)));
    if (better) {
      best = *header;
      place_ = Place{mapping.start, mapping.name};
    }
  }
  if (candidates.truncated) notes_.push_back("too many mappings: some were not searched");
  if (!place_ && problem) return tl::unexpected(std::move(*problem));
  return {};
}

/// Brings `state_` up to date with what is at `place_`.
Result<void> ContextReader::read() {
  const Address at = place_->header;
  const bool same_place = state_ && state_->header == at;
  const std::uint64_t known = same_place ? state_->context.published_at_ns : 0;
  Outcome outcome{};
  ContextHeader header;
  for (const microseconds pause : pauses) {
    TRY(go_on());
    if (pause.count() != 0) std::this_thread::sleep_for(pause);
    auto attempt = format::attempt_context(source_->memory(), at, known);
    if (!attempt) return tl::unexpected(source_->explain(std::move(attempt.error())));
    outcome = attempt->outcome;
    header = attempt->header;
    if (outcome == Outcome::unchanged) {
      state_->stale.clear();
      state_->notes = notes_;
      return {};
    }
    if (outcome != Outcome::complete) continue;
    auto context = TRY(format::decode_payload(header.version, attempt->payload));
    TRY(source_->verify());
    context.published_at_ns = header.stamp;
    state_ = ContextState{std::move(context), at, place_->mapping, {}, notes_};
    return {};
  }
  return tl::unexpected(source_->explain(gave_up(outcome, header, at)));
}

/// Whether it is no matter of the context: what was read of it before is not what the process publishes.
bool ContextReader::ends_reading(const Error& error) {
  return error.code == ErrorCode::interrupted || error.code == ErrorCode::another_program ||
         error.code == ErrorCode::not_found;
}

Result<const ContextState*> ContextReader::stale_or(Error problem) {
  if (!state_ || ends_reading(problem)) return tl::unexpected(std::move(problem));
  state_->stale = std::move(problem.message);
  return &*state_;
}

Result<const ContextState*> ContextReader::refresh() {
  if (place_) {
    auto done = read();
    if (done) return &*state_;
    if (ends_reading(done.error())) return tl::unexpected(std::move(done.error()));
    if (done.error().code == ErrorCode::changing) {
      TRY(source_->verify());
      return stale_or(std::move(done.error()));
    }
  }
  TRY(locate());
  if (!place_) {
    state_.reset();
    return nullptr;
  }
  if (auto done = read(); !done) return stale_or(std::move(done.error()));
  return &*state_;
}

namespace {

/// As profiles have attributes; nothing: lists of lists, bytes, no value.
std::optional<std::string> text_of(const format::AnyValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.data)) return *text;
  if (const auto* flag = std::get_if<bool>(&value.data)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<std::int64_t>(&value.data)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value.data)) return fmt::format("{}", *number);
  return std::nullopt;
}

std::vector<profile::Attribute> read_context(pid_t pid) {
  std::vector<profile::Attribute> attributes;
  auto reader = ContextReader::open(pid);
  if (!reader) return attributes;
  const auto state = (*reader)->refresh();
  if (!state || *state == nullptr) return attributes;
  for (const format::KeyValue& attribute : (*state)->context.resource) {
    auto text = text_of(attribute.value);
    if (!text) continue;
    // Of several the last counts, as for protobuf readers.
    std::erase_if(attributes, [&](const auto& other) { return other.key == attribute.key; });
    attributes.push_back({attribute.key, std::move(*text)});
  }
  return attributes;
}

/// In a container of its own UTS namespace, its operator chose the host's name.
std::string host_name() {
  if (const char* given = std::getenv("VITRINE_HOST_NAME"); given != nullptr && *given != '\0')
    return given;
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

std::string container_id(std::string_view cgroup) {
  constexpr std::size_t digits = 64;
  std::size_t run = 0;
  std::string id;
  for (std::size_t at = 0; at <= cgroup.size(); ++at) {
    const char c = at < cgroup.size() ? cgroup[at] : '\n';
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) {
      ++run;
      continue;
    }
    if (run == digits) id = cgroup.substr(at - digits, digits);  // the innermost is the last
    run = 0;
  }
  return id;
}

std::string pod_uid(std::string_view cgroup) {
  constexpr std::string_view root = "kubepods", mark = "pod";
  std::size_t at = cgroup.find(root);
  if (at == cgroup.npos) return {};
  for (at = cgroup.find(mark, at + root.size()); at != cgroup.npos;
       at = cgroup.find(mark, at + 1)) {
    const std::string_view rest = cgroup.substr(at + mark.size());
    std::string uid(rest.substr(0, rest.find_first_not_of("0123456789abcdef-_")));
    // Of a pod that a file on the host describes, it is a hash.
    if (uid.size() != 36 && uid.size() != 32) continue;
    std::replace(uid.begin(), uid.end(), '_', '-');
    return uid;
  }
  return {};
}

void read_groups(ProcessFacts& facts, int proc_dir) {
  const auto cgroup = target::read_file_at(proc_dir, "cgroup", target::proc_file_bytes);
  if (!cgroup) return;
  facts.cgroup = cgroup_path(*cgroup);
  facts.container = container_id(*cgroup);
  facts.pod = pod_uid(*cgroup);
}

ProcessFacts read_facts(pid_t pid, int proc_dir) {
  ProcessFacts facts;
  facts.inner = target::read_inner_identity(proc_dir);
  if (const auto line = target::read_blocking_at(proc_dir, "stat", target::proc_file_bytes)) {
    if (const auto stat = target::parse_stat(*line)) facts.command = stat->comm;
    facts.executable = target::executable_path(proc_dir);
  }
  read_groups(facts, proc_dir);
  facts.context = read_context(pid);
  // That was asked for by number: if this process has ended, it may be another's.
  if (::faccessat(proc_dir, "stat", F_OK, 0) != 0) facts.context.clear();
  return facts;
}

namespace {

constexpr std::string_view service_key = "service.name";

/// What a pod's manifest is asked to put into the environment, by the downward API.
constexpr std::pair<std::string_view, const char*> pod_variables[] = {
    {"POD_NAME", "k8s.pod.name"},
    {"POD_NAMESPACE", "k8s.namespace.name"},
    {"NODE_NAME", "k8s.node.name"},
    {"CONTAINER_NAME", "k8s.container.name"}};

const char* key_of_pod(std::string_view name) {
  for (const std::string_view prefix : {"K8S_", "MY_"})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  for (const auto& [variable, key] : pod_variables)
    if (name == variable) return key;
  return nullptr;
}

/// What is there already stays.
void add_attribute(std::vector<profile::Attribute>& all, std::string key, std::string value) {
  const bool there = std::ranges::find(all, key, &profile::Attribute::key) != all.end();
  if (!there && !value.empty()) all.push_back({std::move(key), std::move(value)});
}

}  // namespace

std::vector<profile::Attribute> attributes_of_environment(std::string_view environment,
                                                          bool is_in_pod) {
  std::vector<profile::Attribute> found;
  std::string_view pairs;
  while (!environment.empty()) {
    const std::size_t end = std::min(environment.find('\0'), environment.size());
    const std::string_view line = environment.substr(0, end);
    environment.remove_prefix(std::min(end + 1, environment.size()));
    const std::size_t equals = line.find('=');
    if (equals == line.npos) continue;
    const std::string_view name = line.substr(0, equals), value = line.substr(equals + 1);
    if (name == "OTEL_SERVICE_NAME")
      add_attribute(found, std::string(service_key), std::string(value));
    if (name == "OTEL_RESOURCE_ATTRIBUTES") pairs = value;
    if (const char* key = is_in_pod ? key_of_pod(name) : nullptr)
      add_attribute(found, key, std::string(value));
  }
  if (auto parsed = parse_baggage(pairs))
    for (auto& [key, value] : *parsed)
      if (found.size() < limits::environment_attributes)
        add_attribute(found, std::move(key), std::move(value));
  return found;
}

std::vector<profile::Attribute> read_environment(int proc_dir, bool is_in_pod) {
  const auto text = target::read_blocking_at(proc_dir, "environ", limits::environment_bytes);
  return text ? attributes_of_environment(*text, is_in_pod) : std::vector<profile::Attribute>();
}

std::string_view service_name(const ProcessFacts& facts) {
  for (const auto* attributes : {&facts.context, &facts.environment})
    for (const profile::Attribute& attribute : *attributes)
      if (attribute.key == service_key) return attribute.value;
  return {};
}

namespace {

bool is_named(int proc_dir, std::string_view name) {
  const auto line = target::read_blocking_at(proc_dir, "stat", target::proc_file_bytes);
  if (!line) return false;
  if (const auto stat = target::parse_stat(*line); stat && stat->comm == name) return true;
  if (file_name(target::executable_path(proc_dir)) == name) return true;
  const auto words = target::read_blocking_at(proc_dir, "cmdline", target::proc_file_bytes);
  return words && file_name(std::string_view(words->c_str())) == name;
}

}  // namespace

Result<std::vector<pid_t>> processes_named(std::string_view name) {
  std::vector<pid_t> named;
  for (const pid_t pid : TRY(target::all_processes())) {
    if (pid == ::getpid()) continue;
    const auto dir =
        target::open_at(AT_FDCWD, fmt::format("/proc/{}", pid), O_RDONLY | O_DIRECTORY);
    if (dir && is_named(dir->get(), name)) named.push_back(pid);
  }
  if (named.empty())
    return fail(ErrorCode::not_found, fmt::format("no process is called '{}'", name),
                "`ps -e` lists all processes, `vitrine ps` those that publish");
  return named;
}

std::vector<profile::Attribute> resource_of(pid_t pid, const ProcessFacts& facts) {
  static const std::string host = host_name();
  std::vector<profile::Attribute> resource = facts.context;
  const auto add = [&](std::string key, std::string value) {
    add_attribute(resource, std::move(key), std::move(value));
  };
  for (const profile::Attribute& attribute : facts.environment) add(attribute.key, attribute.value);
  add("process.pid", std::to_string(pid));
  add("process.executable.name",
      facts.executable.empty() ? facts.command : std::string(file_name(facts.executable)));
  add("process.executable.path", facts.executable);
  add("container.id", facts.container);
  add("k8s.pod.uid", facts.pod);
  add("host.name", host);
  return resource;
}

std::string encoded_resource(pid_t pid) {
  std::vector<profile::Attribute> resource;
  if (pid == 0) {
    resource = {{telemetry::service_name_key, "vitrine"}, {"host.name", host_name()}};
  } else {
    const auto dir =
        target::open_at(AT_FDCWD, fmt::format("/proc/{}", pid), O_RDONLY | O_DIRECTORY);
    resource = resource_of(pid, dir ? read_facts(pid, dir->get()) : ProcessFacts{});
  }
  telemetry::Attributes attributes;
  for (profile::Attribute& one : resource) {
    std::int64_t number = 0;  // by the semantic conventions, a pid is one
    const char* const end = one.value.data() + one.value.size();
    if (one.key == telemetry::pid_key && std::from_chars(one.value.data(), end, number).ptr == end)
      attributes.push_back({std::move(one.key), number});
    else
      attributes.push_back({std::move(one.key), std::move(one.value)});
  }
  return telemetry::encode_resource(attributes);
}

}  // namespace vitrine::observe
