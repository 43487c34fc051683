// TargetMaps: the maps behind a ProcessTable (moment_state.bpf.h).
#pragma once

#include "bpf/process_table.hpp"

namespace vitrine::bpf {

/// Their descriptors; not ours to close.
struct TargetMaps {
  int targets = -1;
  int presumed = -1;

  /// Fills in when it was told. `only_new`: what was told of this process before stays.
  [[nodiscard]] Result<void> want(pid_t kernel_tgid, const vitrine_target& target,
                                  bool only_new = false) const;
  void forget(pid_t kernel_tgid) const;
  void presume(const vitrine_executable& file, const vitrine_target& target) const;
};

}  // namespace vitrine::bpf
