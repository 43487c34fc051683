// What is known of a process beside its code: its process context, and its environment.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory.hpp"
#include "base/result.hpp"
#include "format/process_context.hpp"
#include "profile/profile.hpp"
#include "target/maps.hpp"
#include "target/proc_file.hpp"
#include "target/process.hpp"

namespace vitrine::observe {

// Reading the process context of a live process (docs/formats/process-context.md,
// "Mapping" and "Reading").

/// What a process publishes now.
struct ContextState {
  format::ProcessContext context;
  Address header = 0;   ///< where it was read
  std::string mapping;  ///< the name of that mapping in /proc/PID/maps
  /// Not empty: this is the last good reading, because the present one could not be finished; why.
  std::string stale;
  std::vector<std::string> notes;  ///< other mappings that were passed over, and why
};

/// Where a ContextReader looks.
class ContextSource {
 public:
  virtual ~ContextSource() = default;
  virtual Memory& memory() = 0;
  /// The mappings that may hold a context.
  virtual Result<target::ContextMappings> mappings() = 0;
  /// Whether what is read still belongs to what was opened.
  virtual Result<void> verify() = 0;
  /// What is known of why something could not be read, added to what could not.
  virtual Error explain(Error error) { return error; }
};

/// Reads one process's context again and again. Finding it costs a search of the mappings;
/// afterwards an unchanged context costs one read of 32 bytes.
class ContextReader {
 public:
  /// Opens a live process. Errors: not_found (no such process), not_permitted, unsupported.
  static Result<std::unique_ptr<ContextReader>> open(int pid);

  /// The same for a process that is open; it must outlive the reader.
  static std::unique_ptr<ContextReader> of(target::Process& process);

  explicit ContextReader(std::unique_ptr<ContextSource> source) : source_(std::move(source)) {}

  /// When it becomes true, refresh() ends with the error `interrupted`.
  void stop_by(const std::atomic<bool>* stop) { stop_ = stop; }

  /// The context now. `nullptr`: the process publishes none (it may later). Valid until the next
  /// call. Errors: not_permitted; not_found, the process is gone; another_program, it executed one (open
  /// it again); changing, its context is being updated and there is no earlier reading; interrupted, by
  /// stop_by(); malformed, unsupported or limit, by its publisher's fault.
  Result<const ContextState*> refresh();

 private:
  struct Place {
    Address header = 0;
    std::string mapping;
  };

  Result<void> locate();
  Result<void> read();
  [[nodiscard]] Result<void> go_on() const;
  static bool ends_reading(const Error& error);
  Result<const ContextState*> stale_or(Error problem);

  std::unique_ptr<ContextSource> source_;
  const std::atomic<bool>* stop_ = nullptr;
  std::optional<Place> place_;
  std::vector<std::string> notes_;     ///< of the search that found `place_`
  std::optional<ContextState> state_;  ///< the last good reading
};

// What is known of a process beside its code: for the resource that its profile is about.

struct ProcessFacts {
  target::InnerIdentity inner;
  std::string command;     ///< comm
  std::string executable;  ///< path as the process names it, without " (deleted)"; empty: hidden
  std::string cgroup;      ///< path of its control group
  std::string container;   ///< id, by its cgroup; empty: in none
  std::string pod;         ///< uid of its Kubernetes pod, by its cgroup; empty: in none
  std::vector<profile::Attribute> context;  ///< resource attributes that it publishes (OTEP-4719)
  std::vector<profile::Attribute> environment;  ///< those that it was started with
};

/// Where it runs: its control group, and what that shows. `proc_dir`: descriptor of /proc/PID.
void read_groups(ProcessFacts& facts, int proc_dir);

/// What cannot be had stays empty: the process may be gone, or another user's. `proc_dir`:
/// descriptor of /proc/PID. Without `environment`, which does not change while a program runs.
ProcessFacts read_facts(pid_t pid, int proc_dir);

/// The resource attributes in an environment, as the kernel shows it (/proc/PID/environ):
/// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES; and in a Kubernetes pod, of which `is_in_pod`,
/// POD_NAME, POD_NAMESPACE, NODE_NAME and CONTAINER_NAME, also with the prefixes K8S_ and MY_, as
/// manifests fill them in. No other variable is looked at: environments hold secrets.
std::vector<profile::Attribute> attributes_of_environment(std::string_view environment,
                                                          bool is_in_pod);
/// Those of a process. Empty: they cannot be read.
std::vector<profile::Attribute> read_environment(int proc_dir, bool is_in_pod);

/// Of what it declares of itself; empty: nothing.
std::string_view service_name(const ProcessFacts& facts);

/// The id of a container in the text of /proc/PID/cgroup: 64 hexadecimal digits, as container
/// engines name their groups ("docker-ID.scope", "cri-containerd-ID.scope", "/docker/ID"). Empty:
/// none.
std::string container_id(std::string_view cgroup);

/// The uid of a Kubernetes pod in the same text: "kubepods-burstable-podUID.slice", with underscores,
/// or "/kubepods/burstable/podUID/". Empty: none.
std::string pod_uid(std::string_view cgroup);

/// Those whose comm, executable or first argument has this file name, without this one. Errors:
/// not_found (there is none), failed.
Result<std::vector<pid_t>> processes_named(std::string_view name);

/// Resource attributes of a process: what it publishes itself, then those of its environment, then
/// `process.pid`, `process.executable.name` and `.path`, `container.id`, `k8s.pod.uid`, `host.name`
/// (OpenTelemetry semantic conventions), each where nothing before has it.
std::vector<profile::Attribute> resource_of(pid_t pid, const ProcessFacts& facts);

/// The same as a message Resource of OTLP; of a process that is gone, its PID and the host. pid 0:
/// of what several processes have together: the service is vitrine itself.
std::string encoded_resource(pid_t pid);

}  // namespace vitrine::observe
