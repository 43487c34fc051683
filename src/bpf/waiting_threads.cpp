#include "bpf/waiting_threads.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <waiting.skel.h>

#include <cerrno>

#include "bpf/availability.hpp"
#include "bpf/kernel_log.hpp"
#include "bpf/silent_iterator.hpp"

namespace vitrine::bpf {
namespace {

class LoadedWaitingThreads final : public WaitingThreads {
 public:
  ~LoadedWaitingThreads() override { vitrine_waiting::destroy(program_); }

  Result<void> load(bpf_object* profiler) {
    const KernelLog log;
    program_ = vitrine_waiting::open();
    int error = program_ != nullptr ? share_maps(profiler) : errno;
    if (error == 0) error = vitrine_waiting::load(program_);
    if (error != 0) return tl::unexpected(log.error("load the reader of waiting threads", error));
    return {};
  }

  Result<void> sample(const vitrine_moment_config& config,
                      const vitrine_profile_config& profile_config,
                      std::uint64_t began_ns) override {
    const KernelLog log;
    program_->bss->config = config;
    program_->bss->profile_config = profile_config;
    program_->bss->began_ns = began_ns;
    if (const int error = run_silently(program_->progs.waiting))
      return tl::unexpected(log.error("read the threads that wait", error));
    return {};
  }

 private:
  /// Those that both have, except for what is each one's own: variables, and room to work in.
  int share_maps(bpf_object* profiler) {
    bpf_map* map = nullptr;
    bpf_object__for_each_map(map, program_->obj) {
      if (bpf_map__is_internal(map) || map == program_->maps.scratches) continue;
      const bpf_map* theirs = bpf_object__find_map_by_name(profiler, bpf_map__name(map));
      if (theirs == nullptr) continue;
      if (const int error = bpf_map__reuse_fd(map, bpf_map__fd(theirs))) return error;
    }
    return 0;
  }

  vitrine_waiting* program_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<WaitingThreads>> WaitingThreads::open(bpf_object* profiler) {
  if (!kernel_has_function("bpf_task_from_pid"))
    return fail(
        ErrorCode::unsupported,
        "this kernel cannot read the memory of other threads (bpf_task_from_pid, Linux 6.2)");
  auto threads = std::make_unique<LoadedWaitingThreads>();
  TRY(threads->load(profiler));
  return threads;
}

}  // namespace vitrine::bpf
