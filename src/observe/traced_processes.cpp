#include "observe/traced_processes.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace vitrine::observe {

Result<void> TracedProcesses::add(pid_t pid) {
  if (has(pid)) return {};
  target::FileDescriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (pidfd) {
    alive_.emplace(pid, std::move(pidfd));
    return {};
  }
  if (errno == ESRCH)
    return fail(ErrorCode::not_found, fmt::format("no such process: {}", pid),
                "`vitrine ps --probes` lists processes with labels, context or probes");
  // EINVAL: a thread, not a process (or, in old kernels, no such thing at all).
  return fail(ErrorCode::not_found,
              fmt::format("{} is not a process: {}", pid, std::strerror(errno)),
              "give the ID of the process, not of one of its threads");
}

std::vector<pid_t> TracedProcesses::all() const {
  std::vector<pid_t> pids;
  for (const auto& [pid, pidfd] : alive_) pids.push_back(pid);
  return pids;
}

std::vector<pid_t> TracedProcesses::take_ended() {
  std::vector<pid_t> ended;
  for (auto at = alive_.begin(); at != alive_.end();) {
    pollfd end{at->second.get(), POLLIN, 0};
    if (::poll(&end, 1, 0) > 0) {
      ended.push_back(at->first);
      at = alive_.erase(at);
    } else {
      ++at;
    }
  }
  return ended;
}

}  // namespace vitrine::observe
