// The CPU clock as a perf event: what samplers run on.
//
// Ownership: an event is of the process that opened it, and is disabled there when it ends. A fork shares the
// event, with its state: there a copy only closes its descriptors, and the clock ticks on until the opener's end
// (base/own_process.hpp).
#pragma once

#include <linux/perf_event.h>
#include <sys/types.h>

#include <map>
#include <memory>
#include <vector>

#include "base/own_process.hpp"
#include "base/result.hpp"
#include "target/cpu_events.hpp"

struct bpf_link;
struct bpf_program;

namespace vitrine::bpf {

/// A software clock of a CPU that does not tick while it idles; neither period nor frequency is set.
perf_event_attr cpu_clock();

struct EndLink {
  int event = -1;  ///< descriptor that the link owns
  OwnProcess owner;
  void operator()(bpf_link* link) const;
};

/// A program that runs at each tick, until this ends.
struct AttachedClock {
  target::CpuEvent event;
  std::unique_ptr<bpf_link, EndLink> link;
};

/// Runs `program` at each tick, in thread `tid` as we see it (-1: any) on `cpu` (-1: any). Errors: not_found (no such
/// CPU or thread), not_permitted, failed.
Result<AttachedClock> attach_to_clock(const bpf_program* program, perf_event_attr clock, pid_t tid,
                                      int cpu);

/// The same on all CPUs.
class CpuClocks {
 public:
  /// Errors: as attach_to_clock(), but for CPUs that are offline.
  Result<void> start(const bpf_program* program, const perf_event_attr& clock);

  /// Starts those of CPUs that have come online since. Returns these. See target::cpu_look_interval.
  Result<std::vector<int>> renew();

  void stop() { clocks_.clear(); }
  [[nodiscard]] bool are_started() const { return !clocks_.empty(); }

 private:
  const bpf_program* program_ = nullptr;
  perf_event_attr attributes_{};
  std::map<int, AttachedClock> clocks_;
};

}  // namespace vitrine::bpf
