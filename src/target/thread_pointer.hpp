// Thread pointers (x86-64 FS base, aarch64 TPIDR_EL0) of running threads.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "target/libc.hpp"
#include "target/process.hpp"
#include "target/threads.hpp"

namespace vitrine::target {

/// Finds thread pointers and remembers them: a C library never changes a thread's after its start.
///
/// Of itself it knows the way through glibc's robust lists and through musl's ring of threads,
/// which need no more rights than reading memory (docs/formats/tls.md, "Thread pointers").
class ThreadPointers {
 public:
  /// One for each thread, in order; nullopt where it cannot be known without more rights.
  std::vector<std::optional<Address>> find(const Process& process, std::span<const Thread> threads,
                                           const ThreadLayout& layout = {});

  /// What of the C library's list of threads was not read, as a sentence; empty: nothing.
  [[nodiscard]] const std::string& cut() const { return cut_; }

  /// Forgets all but these, which are in ascending order.
  void keep_only(std::span<const Thread> threads);

 private:
  void find_by_robust_list(const Process& process, std::span<const Thread> threads,
                           const ThreadLayout& layout);
  void find_by_musl_ring(const Process& process, std::span<const Thread> threads,
                         const ThreadLayout& layout);
  std::vector<Thread> unknown(std::span<const Thread> threads) const;

  std::map<ThreadId, Address> known_;
  std::string cut_;
  int searches_left_ = 4;  ///< a program without a C library must not cost us a search a tick
};

}  // namespace vitrine::target
