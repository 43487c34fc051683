#include "bpf/target_maps.hpp"

#include <bpf/bpf.h>
#include <time.h>

#include <cerrno>

#include "bpf/kernel_log.hpp"

namespace vitrine::bpf {
namespace {

std::uint64_t since_boot_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

Result<void> TargetMaps::want(pid_t kernel_tgid, const vitrine_target& target,
                              bool only_new) const {
  const KernelLog log;
  vitrine_target told = target;
  told.told_ns = since_boot_ns();
  if (bpf_map_update_elem(targets, &kernel_tgid, &told, only_new ? BPF_NOEXIST : BPF_ANY) == 0 ||
      errno == EEXIST)
    return {};
  if (errno == E2BIG)
    return fail(ErrorCode::limit, "too many processes with labels for the kernel's table");
  return tl::unexpected(log.error("configure the processes to read", errno));
}

void TargetMaps::forget(pid_t kernel_tgid) const {
  bpf_map_delete_elem(targets, &kernel_tgid);
}

void TargetMaps::presume(const vitrine_executable& file, const vitrine_target& target) const {
  bpf_map_update_elem(presumed, &file, &target, BPF_ANY);
}

}  // namespace vitrine::bpf
