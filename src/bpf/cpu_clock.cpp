#include "bpf/cpu_clock.hpp"

#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "bpf/kernel_log.hpp"

namespace vitrine::bpf {

perf_event_attr cpu_clock() {
  perf_event_attr attr{};
  attr.size = sizeof attr;
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_CPU_CLOCK;
  attr.exclude_idle = 1;
  return attr;
}

Result<bpf_link*> attach_to_clock(const bpf_program* program, perf_event_attr& clock, pid_t tid,
                                  int cpu) {
  const KernelLog log;
  const auto fd =
      static_cast<int>(::syscall(SYS_perf_event_open, &clock, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC));
  if (fd < 0) {
    if (errno == ENODEV || errno == ESRCH)
      return fail(ErrorCode::not_found, "no such CPU or thread to sample");
    return tl::unexpected(log.error("open a CPU-clock event", errno));
  }
  bpf_link* link = bpf_program__attach_perf_event(program, fd);
  if (link != nullptr) return link;
  const int error = errno;
  ::close(fd);
  return tl::unexpected(log.error("attach a sampling program to a CPU-clock event", error));
}

}  // namespace vitrine::bpf
