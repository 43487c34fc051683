#include "bpf/cpu_clocks.hpp"

#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "bpf/kernel_log.hpp"

namespace vitrine::bpf {

void EndLink::operator()(bpf_link* link) const {
  if (!owner.is_here()) {
    // As libbpf disables the event, which is the opener's, too.
    if (const int fd = bpf_link__fd(link); fd >= 0 && fd != event) ::close(fd);
    ::close(event);
    bpf_link__disconnect(link);
  }
  bpf_link__destroy(link);
}

perf_event_attr cpu_clock() {
  perf_event_attr attr{};
  attr.size = sizeof attr;
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_CPU_CLOCK;
  attr.exclude_idle = 1;
  attr.read_format = target::CpuEvent::read_format;
  return attr;
}

Result<AttachedClock> attach_to_clock(const bpf_program* program, perf_event_attr clock, pid_t tid,
                                      int cpu) {
  const KernelLog log;
  const auto fd =
      static_cast<int>(::syscall(SYS_perf_event_open, &clock, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC));
  if (fd < 0) {
    if (errno == ENODEV || errno == ESRCH)
      return fail(ErrorCode::not_found, "no such CPU or thread to sample");
    const int error = errno;
    constexpr const char* opening = "open a CPU-clock event";
    if (error == EPERM || error == EACCES)
      return tl::unexpected(
          not_permitted(opening, error, {CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN},
                        std::string(grant_bpf) +
                            "; where kernel.perf_event_paranoid is above 2 also CAP_SYS_ADMIN"));
    return tl::unexpected(log.error(opening, error));
  }
  // libbpf closes the one that it is given.
  FileDescriptor own(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  std::unique_ptr<bpf_link, EndLink> link;
  if (own)
    link = std::unique_ptr<bpf_link, EndLink>(bpf_program__attach_perf_event(program, fd),
                                              EndLink{fd, {}});
  if (link != nullptr) return AttachedClock{target::CpuEvent(std::move(own)), std::move(link)};
  const int error = errno;
  ::close(fd);
  return tl::unexpected(log.error("attach a sampling program to a CPU-clock event", error));
}

Result<void> CpuClocks::start(const bpf_program* program, const perf_event_attr& clock) {
  program_ = program;
  attributes_ = clock;
  TRY(renew());
  return {};
}

Result<std::vector<int>> CpuClocks::renew() {
  std::vector<int> fresh;
  for (const int cpu : target::online_cpus()) {
    const auto known = clocks_.find(cpu);
    if (known != clocks_.end() && known->second.event.is_in_force()) continue;
    auto clock = attach_to_clock(program_, attributes_, -1, cpu);
    if (!clock && clock.error().code == ErrorCode::not_found) continue;  // it has just gone
    if (!clock) return tl::unexpected(std::move(clock.error()));
    if (known != clocks_.end()) clocks_.erase(known);
    clocks_.emplace(cpu, std::move(*clock));
    fresh.push_back(cpu);
  }
  return fresh;
}

}  // namespace vitrine::bpf
