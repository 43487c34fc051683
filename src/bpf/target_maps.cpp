#include "bpf/target_maps.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/membarrier.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "bpf/kernel_log.hpp"
#include "bpf/thread_iterator.hpp"

namespace vitrine::bpf {

Result<vitrine_event_config> event_config(std::size_t ring_bytes, std::uint32_t epoch) {
  vitrine_event_config config{};
  if (!in_initial_pid_namespace()) {
    config.pid_level = TRY(kernel_view_of(::getpid())).pid_level;
    config.pid_namespace = pid_namespace();
  }
  if (::getrandom(&config.hash_key, sizeof config.hash_key, 0) != sizeof config.hash_key)
    return fail(ErrorCode::failed, "the kernel returned no random numbers");
  config.epoch = epoch;
  config.wake_bytes = ring_bytes / 4;
  return config;
}

namespace {

/// As programs go through them: a label array may be the block of vitrine's writer that a record is in.
vitrine_target with_arrays_first(vitrine_target target) {
  std::stable_partition(
      target.definitions, target.definitions + target.definition_count,
      [](const vitrine_definition& definition) { return definition.shape == VITRINE_LABEL_ARRAY; });
  return target;
}

/// While it lives, a change of the tables is under way.
class Change {
 public:
  explicit Change(__u64* changes) : changes_(changes) {
    if (changes_ != nullptr) std::atomic_ref(*changes_) += begun + under_way;
  }
  ~Change() {
    if (changes_ != nullptr) std::atomic_ref(*changes_) -= under_way;
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

 private:
  static constexpr __u64 under_way = 1, begun = __u64{1} << 32;

  __u64* changes_;
};

}  // namespace

Result<void> TargetMaps::want(pid_t kernel_tgid, const vitrine_target& target,
                              bool only_new) const {
  const KernelLog log;
  vitrine_target given = with_arrays_first(target);
  given.given_ns = kernel_boot_time_ns();
  const Change change(changes);
  if (bpf_map_update_elem(targets, &kernel_tgid, &given, only_new ? BPF_NOEXIST : BPF_ANY) == 0 ||
      errno == EEXIST)
    return {};
  if (errno == E2BIG)
    return fail(ErrorCode::limit, "too many processes with labels for the kernel's table");
  return tl::unexpected(log.error("configure the processes to read", errno));
}

void TargetMaps::forget(pid_t kernel_tgid) const {
  const Change change(changes);
  bpf_map_delete_elem(targets, &kernel_tgid);
}

void TargetMaps::assume(const vitrine_executable& file, const vitrine_target& target) const {
  const vitrine_target given = with_arrays_first(target);
  const Change change(changes);
  bpf_map_update_elem(assumed, &file, &given, BPF_ANY);
}

std::uint64_t sum_of_cpus(int map, std::uint32_t key) {
  std::vector<std::uint64_t> of_cpus(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  if (bpf_map_lookup_elem(map, &key, of_cpus.data()) != 0) return 0;
  return std::accumulate(of_cpus.begin(), of_cpus.end(), std::uint64_t{0});
}

void let_programs_end() {
  constexpr std::chrono::milliseconds longer_than_any{10};
  // In the kernel this is synchronize_rcu(). It is refused where CPUs are left alone (nohz_full).
  if (::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) != 0)
    std::this_thread::sleep_for(longer_than_any);
}

}  // namespace vitrine::bpf
