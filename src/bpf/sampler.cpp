#include "bpf/sampler.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <sampler.skel.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "bpf/cpu_clocks.hpp"
#include "bpf/kernel_log.hpp"
#include "bpf/kernel_types.hpp"
#include "bpf/target_maps.hpp"

namespace vitrine::bpf {
namespace {

using Sink = std::function<void(std::span<const std::byte>)>;

using Clock = std::chrono::steady_clock;

/// One poll(): the sink of the samples, and until when. Where samples come faster than they are
/// taken, the buffer is never empty.
struct Handover {
  const Sink* sink = nullptr;
  Clock::time_point end;
  std::exception_ptr thrown{};  ///< by the sink, below libbpf, which is C
};

int hand_over(void* context, void* data, std::size_t size) {
  auto& handover = *static_cast<Handover*>(context);
  try {
    (*handover.sink)({static_cast<const std::byte*>(data), size});
  } catch (...) {
    handover.thrown = std::current_exception();
  }
  const bool goes_on = !handover.thrown && Clock::now() < handover.end;
  return goes_on ? 0 : -ECANCELED;  // libbpf stops after this sample
}

constexpr std::chrono::milliseconds shortest_handover{1};  // also of a poll() that does not wait

class LoadedSampler final : public Sampler {
 public:
  ~LoadedSampler() override {
    stop();
    ring_buffer__free(ring_);
    vitrine_sampler::destroy(program_);
  }

  Result<void> load() {
    const KernelLog log;
    const KernelTypes types;
    program_ = types.open<vitrine_sampler>();
    if (const int error = program_ != nullptr ? types.load(program_) : errno)
      return tl::unexpected(log.error("load the sampler", error));
    ring_ = ring_buffer__new(bpf_map__fd(program_->maps.samples), hand_over, &handover_, nullptr);
    if (ring_ == nullptr) return tl::unexpected(log.error("map the sampler's buffer", errno));
    return {};
  }

  Result<void> want(pid_t kernel_tgid, const vitrine_target& target) override {
    const KernelLog log;
    if (const int error =
            bpf_map_update_elem(bpf_map__fd(program_->maps.targets), &kernel_tgid, &target, 0))
      return tl::unexpected(log.error("configure the sampler", error));
    return {};
  }

  void forget(pid_t kernel_tgid) override {
    bpf_map_delete_elem(bpf_map__fd(program_->maps.targets), &kernel_tgid);
  }

  Result<void> start(unsigned hz) override {
    perf_event_attr attr = cpu_clock();
    attr.freq = 1;
    attr.sample_freq = hz;
    auto begun = clocks_.start(program_->progs.sample, attr);
    if (!begun) stop();
    return begun;
  }

  Result<void> start(pid_t tid, std::chrono::microseconds period) override {
    perf_event_attr attr = cpu_clock();
    attr.sample_period =
        static_cast<__u64>(std::chrono::duration_cast<std::chrono::nanoseconds>(period).count());
    of_thread_ = TRY(attach_to_clock(program_->progs.sample, attr, tid, -1));
    return {};
  }

  void stop() override {
    clocks_.stop();
    of_thread_.reset();
  }

  Result<void> poll(std::chrono::milliseconds timeout, const Sink& sink) override {
    const KernelLog log;
    handover_ = {&sink, Clock::now() + std::max(timeout, shortest_handover)};
    const int got = ring_buffer__poll(ring_, static_cast<int>(timeout.count()));
    if (handover_.thrown) std::rethrow_exception(std::exchange(handover_.thrown, nullptr));
    if (got < 0 && got != -EINTR && got != -ECANCELED)
      return tl::unexpected(log.error("read samples", got));
    return {};
  }

  SamplerCounters counters() const override {
    return {counter(VITRINE_SAMPLES), counter(VITRINE_LOST), counter(VITRINE_SAMPLES_CUT),
            counter(VITRINE_FAULTS)};
  }

 private:
  std::uint64_t counter(__u32 which) const {
    return sum_of_cpus(bpf_map__fd(program_->maps.counters), which);
  }

  vitrine_sampler* program_ = nullptr;
  ring_buffer* ring_ = nullptr;
  CpuClocks clocks_;
  std::optional<AttachedClock> of_thread_;
  Handover handover_;  // of the poll() in hand
};

}  // namespace

Result<std::unique_ptr<Sampler>> Sampler::open() {
  TRY(require_kernel());
  auto sampler = std::make_unique<LoadedSampler>();
  TRY(sampler->load());
  return sampler;
}

}  // namespace vitrine::bpf
