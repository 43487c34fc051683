// ProcessMemory: the memory of a live process, read in batches and without stopping it.
#pragma once

#include <sys/types.h>

#include "base/memory.hpp"
#include "target/proc_file.hpp"

namespace vitrine::target {

/// Reads by process_vm_readv, up to 1,024 requests in one call; where that is refused (seccomp, an
/// old kernel), by /proc/PID/task/TID/mem. Follows a process whose leader has exited through one of
/// its live threads. Strips the tag bits of every address it is given (aarch64 top byte, x86-64
/// LAM), so that decoders may pass on a target's pointers as they found them.
class ProcessMemory final : public Memory {
 public:
  /// `proc_dir`: descriptor of /proc/PID, borrowed. `untag_mask`: the bits of an address that
  /// matter.
  ProcessMemory(pid_t pid, int proc_dir, Address untag_mask)
      : tid_(pid), proc_dir_(proc_dir), untag_mask_(untag_mask) {}

  void read(std::span<ReadRequest> requests) override;

  /// The address without its tag: for comparing and for range checks.
  [[nodiscard]] Address untag(Address address) const { return address & untag_mask_; }

  /// errno of the last refusal that concerned the process and not an address (EPERM, ESRCH); 0 when
  /// there was none.
  [[nodiscard]] int refusal() const { return refusal_; }

 private:
  std::size_t read_batch(std::span<ReadRequest> requests);
  std::size_t by_process_vm(std::span<ReadRequest> requests);
  std::size_t by_file(std::span<ReadRequest> requests);
  bool recover(int error);

  pid_t tid_;  ///< a live thread of the process; at first its leader
  int proc_dir_;
  Address untag_mask_;
  FileDescriptor file_;  ///< of .../mem, once process_vm_readv was refused
  int refusal_ = 0;
};

}  // namespace vitrine::target
