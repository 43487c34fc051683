// What is known of a process beside its code: for the resource that its profile is about.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "profile/profile.hpp"
#include "target/proc_file.hpp"

namespace vitrine::observe {

struct ProcessFacts {
  target::InnerIdentity inner;
  std::string command;     ///< comm
  std::string executable;  ///< path as the process names it, without " (deleted)"; empty: hidden
  std::string container;   ///< id, by its cgroup; empty: in none
  std::vector<profile::Attribute> context;  ///< resource attributes that it publishes (OTEP-4719)
};

/// What cannot be had stays empty: the process may be gone, or another user's. `proc_dir`:
/// descriptor of /proc/PID.
ProcessFacts read_facts(pid_t pid, int proc_dir);

/// The id of a container in the text of /proc/PID/cgroup: 64 hexadecimal digits, as container
/// engines name their groups ("docker-ID.scope", "cri-containerd-ID.scope", "/docker/ID"). Empty:
/// none.
std::string container_id(std::string_view cgroup);

/// Resource attributes of a process: what it publishes itself, then `process.pid`,
/// `process.executable.name` and `.path`, `container.id`, `host.name` (OpenTelemetry semantic
/// conventions) where it says nothing of them.
std::vector<profile::Attribute> resource_of(pid_t pid, const ProcessFacts& facts);

}  // namespace vitrine::observe
