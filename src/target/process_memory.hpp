// ProcessMemory: the memory of a live process, read in batches and without stopping it.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/memory.hpp"
#include "target/memory_reader.hpp"
#include "target/proc_file.hpp"

namespace vitrine::target {

/// Reads by process_vm_readv, up to 1,024 requests in one call; where that is refused (seccomp, an
/// old kernel, Yama), by /proc/PID/task/TID/mem. Follows a process whose leader has exited through
/// one of its live threads. The kernel keeps the process's number as long as it has threads, but
/// not the number of a thread that ended: what was read by that counts only if the thread still
/// exists afterwards. Strips the tag bits of every address it is given (aarch64 top byte,
/// x86-64 LAM), so that decoders may pass on a target's pointers as they found them.
///
/// Memory that does not come (a page of a userfaultfd that no process serves) counts as unreadable: a
/// reader waits for it, and for so long in all as `budget` allows. Then what does not come at once
/// is abandoned; and when that is much, too, everything.
class ProcessMemory final : public Memory {
 public:
  /// `proc_dir`: descriptor of /proc/PID, borrowed. `untag_mask`: the bits of an address that
  /// matter.
  ProcessMemory(pid_t pid, int proc_dir, Address untag_mask)
      : pid_(pid), tid_(pid), proc_dir_(proc_dir), untag_mask_(untag_mask) {}

  void read(std::span<ReadRequest> requests) override;

  /// The address without its tag: for comparing and for range checks.
  [[nodiscard]] Address untag(Address address) const { return address & untag_mask_; }

  /// errno of the last refusal that concerned the process and not an address (EPERM, ESRCH; EAGAIN:
  /// no process could be made to read by); 0 when there was none.
  [[nodiscard]] int refusal() const { return refusal_; }

  /// What to report when memory has not come: "memory of process 12 does not come: …". Empty: all that
  /// was asked for came, or is not there.
  [[nodiscard]] std::string withheld() const;

  /// The same, after what went wrong for want of it.
  [[nodiscard]] Error explain(Error error) const;

  /// Whether something of the last read() has not come.
  [[nodiscard]] bool gave_up() const { return gave_up_; }

  /// While it lives, there is hardly any budget: a thread of the process is stopped meanwhile.
  class ShortBudget {
   public:
    explicit ShortBudget(ProcessMemory& memory);
    ~ShortBudget() { memory_.short_budget_.reset(); }
    ShortBudget(const ShortBudget&) = delete;
    ShortBudget& operator=(const ShortBudget&) = delete;

   private:
    ProcessMemory& memory_;
  };

 private:
  struct Served {
    std::size_t requests = 0;  ///< that are done with
    bool failed = false;       ///< the last of them is not complete
  };
  Served read_batch(std::span<ReadRequest> requests);
  std::size_t put_together(std::span<const ReadRequest> requests);
  Served take(std::span<ReadRequest> requests, std::span<const std::byte> bytes) const;
  void give_up(Address address);
  bool recover(int error);
  bool follow_live_thread();
  [[nodiscard]] bool is_same_process() const;

  pid_t pid_;
  pid_t tid_;  ///< a live thread of the process; at first its leader
  /// /proc/PID/task/TID of a thread that is not the leader: it leads to no other thread that gets
  /// the same number.
  FileDescriptor thread_;
  int proc_dir_;
  Address untag_mask_;
  FileDescriptor file_;  ///< of .../mem, once process_vm_readv was refused
  int refusal_ = 0;
  bool gave_up_ = false;
  bool one_by_one_ = false;          ///< something has not come, once
  std::optional<Address> withheld_;  ///< the first address that did not
  TimeoutBudget budget_{std::chrono::milliseconds(1500)};
  std::optional<TimeoutBudget> short_budget_;
  std::vector<iovec> parts_;  ///< of the batch that is asked for
};

// WatchedMemory: bytes of a target that something was derived from.

/// Remembers places and what was there; finds, by one batched read, whether any of it has changed.
class WatchedMemory {
 public:
  void add(Address address, std::span<const std::byte> bytes);

  template <class T>
  void add_value(Address address, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    add(address, std::as_bytes(std::span(&value, 1)));
  }

  void add_all(const WatchedMemory& other);

  /// True, too, when a place cannot be read any more.
  [[nodiscard]] bool changed(Memory& memory) const;

  [[nodiscard]] bool empty() const { return places_.empty(); }
  void clear();

 private:
  std::vector<std::pair<Address, std::size_t>> places_;  ///< address and size
  std::vector<std::byte> bytes_;                         ///< of all places, one after the other
};

}  // namespace vitrine::target
