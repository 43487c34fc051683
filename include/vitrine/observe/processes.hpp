// vitrine/observe/processes.hpp: which processes publish anything.
#pragma once

#include <cstddef>
#include <string>
#include <vector>
#include <vitrine/observe/result.hpp>

namespace vitrine::observer {
inline namespace v1 {

struct Process {
  int pid = 0;
  std::string comm;  ///< the kernel's name of its first thread
  std::size_t threads = 0;
  std::vector<std::string> formats;   ///< of labels: "custom-labels-v1", "otel-thread-ctx-v1", …
  bool has_context = false;           ///< it publishes a process context
  std::string service;                ///< service.name of that context; may be empty
  std::size_t probes = 0;             ///< static probes in what it executes, by name
  std::vector<std::string> problems;  ///< what of it could not be read, and why
};

struct ProcessList {
  std::vector<Process> processes;  ///< by pid
  std::size_t looked_at = 0;       ///< all processes, without kernel threads
  std::size_t not_permitted = 0;   ///< of those, how many the caller may not look into
};

struct ListOptions {
  bool with_probes = false;  ///< also processes that offer probes and nothing else
};

/// Looks at every process of the caller's pid namespace. Processes that end meanwhile are left out.
/// Any thread may call it.
Result<ProcessList> list_processes(const ListOptions& options = {});

}  // namespace v1
}  // namespace vitrine::observer
