#include "target/thread_pointer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/limits.hpp"
#include "target/libc.hpp"
#include "target/proc_file.hpp"

namespace vitrine::target {
namespace {

constexpr std::size_t rings_tried = 8;

/// Of one ring in one find(), until it leads back to where it began: threads that begin and end
/// change it under the reader.
constexpr int walks_tried = 4;

/// Of musl's ring, in one find(), for each thread that the process has by the kernel's account, and
/// besides: threads come and go meanwhile. A ring of a million members that are none costs no more.
constexpr std::size_t ring_reads_for_each = 4, ring_reads_besides = 1024;

/// What looks like a thread structure in the memory of a process, in one search.
constexpr std::size_t candidates_tried = 4096;

std::size_t thread_count(int proc_dir) {
  const auto status = read_file_at(proc_dir, "status", proc_file_bytes);
  const auto field = status ? status_field(*status, "Threads") : std::nullopt;
  const std::size_t count = field ? std::strtoull(std::string(*field).c_str(), nullptr, 10) : 0;
  return std::min(count, limits::threads);
}

// A thread's id as the target's own libc knows it: that of the innermost pid namespace.
class InnerTids {
 public:
  explicit InnerTids(int proc_dir) : proc_dir_(proc_dir) {
    nested_ = innermost("status").value_or("").find_first_of(" \t") != std::string::npos;
  }

  pid_t of(pid_t tid) const {
    if (!nested_) return tid;
    const auto ids = innermost("task/" + std::to_string(tid) + "/status");
    const auto last = ids ? ids->find_last_of(" \t") : std::string::npos;
    return last == std::string::npos ? tid : std::atoi(ids->c_str() + last + 1);
  }

 private:
  std::optional<std::string> innermost(const std::string& path) const {
    const auto status = read_file_at(proc_dir_, path, 16 * 1024);
    const auto field = status ? status_field(*status, "NSpid") : std::nullopt;
    return field ? std::optional<std::string>(*field) : std::nullopt;
  }

  int proc_dir_;
  bool nested_ = false;
};

}  // namespace

std::vector<Thread> ThreadPointers::unknown(std::span<const Thread> threads) const {
  std::vector<Thread> rest;
  std::copy_if(threads.begin(), threads.end(), std::back_inserter(rest),
               [&](const Thread& thread) { return !known_.contains(thread.id); });
  return rest;
}

std::vector<std::optional<Address>> ThreadPointers::find(const Process& process,
                                                         std::span<const Thread> threads,
                                                         const ThreadLayout& layout) {
  if (const auto rest = unknown(threads); !rest.empty()) find_by_robust_list(process, rest, layout);
  if (const auto rest = unknown(threads); !rest.empty()) find_by_musl_ring(process, rest, layout);
  std::vector<std::optional<Address>> found;
  found.reserve(threads.size());
  for (const Thread& thread : threads) {
    const auto entry = known_.find(thread.id);
    found.push_back(entry == known_.end() ? std::nullopt : std::optional(entry->second));
  }
  return found;
}

void ThreadPointers::find_by_robust_list(const Process& process, std::span<const Thread> threads,
                                         const ThreadLayout& layout) {
  const InnerTids inner(process.proc_dir());
  std::vector<RobustThread> candidates;
  std::vector<ThreadId> ids;
  for (const Thread& thread : threads) {
    const auto head = robust_list_head(thread.id.tid);
    if (!head) continue;
    candidates.push_back({*head, inner.of(thread.id.tid)});
    ids.push_back(thread.id);
  }
  const auto pointers =
      glibc_thread_pointers(process.memory(), process.machine(), candidates, layout.glibc);
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (pointers[i]) known_[ids[i]] = *pointers[i];
}

void ThreadPointers::find_by_musl_ring(const Process& process, std::span<const Thread> threads,
                                       const ThreadLayout& layout) {
  if (layout.glibc) return;
  cut_.clear();
  const InnerTids inner(process.proc_dir());
  std::map<pid_t, ThreadId> wanted;
  for (const Thread& thread : threads) wanted[inner.of(thread.id.tid)] = thread.id;
  const std::size_t count = thread_count(process.proc_dir());
  std::size_t reads_left = ring_reads_for_each * count + ring_reads_besides;
  const auto take = [&](Address member) {
    bool taken = false;
    for (int walk = 0; walk < walks_tried; ++walk) {
      const MuslRing ring = musl_ring(process.memory(), process.machine(), member, reads_left);
      if (ring.cut)
        cut_ = fmt::format(
            "its C library's list of threads has more than {} members, the process has {} threads: "
            "the rest of the list was not read",
            ring.pointers.size(), count);
      for (const auto& [tid, tp] : ring.pointers)
        if (const auto entry = wanted.find(tid); entry != wanted.end()) {
          known_[entry->second] = tp;
          taken |= ring.pointers.size() > 1 || count <= 1;  // one that ends is a ring of itself
        }
      if (ring.closed || ring.cut || ring.pointers.empty()) break;
    }
    return taken;
  };

  // Any pointer opens the ring: one of those we have, unless their threads have ended, or one that
  // must be looked for.
  std::vector<Address> members;
  for (const auto& [thread, tp] : known_)
    if (members.size() < rings_tried) members.push_back(tp);
  if (std::any_of(members.begin(), members.end(), take) || searches_left_ == 0) return;
  --searches_left_;
  std::size_t candidates_left = candidates_tried;
  for (const Range range : thread_memory(process.proc_dir()))
    if (const auto member = musl_thread_in(process.memory(), process.machine(), range, wanted,
                                           layout.tls_modules, candidates_left);
        member && take(*member))
      return;
}

void ThreadPointers::keep_only(std::span<const Thread> threads) {
  std::erase_if(known_, [&](const auto& entry) {
    return !std::binary_search(
        threads.begin(), threads.end(), Thread{entry.first, {}, '?'},
        [](const Thread& left, const Thread& right) { return left.id < right.id; });
  });
}

}  // namespace vitrine::target
