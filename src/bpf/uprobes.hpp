// Making uprobes: one uprobe_multi link for many sites, or one perf event for each. Both end with
// their file descriptors.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.hpp"
#include "bpf/attachment.hpp"

namespace vitrine::bpf {

/// Whether the kernel knows uprobe_multi (Linux 6.6), or refuses to report it: then the error has the reason.
Result<bool> has_uprobe_multi();

/// Whether the kernel's pid filter of uprobe_multi passes one thread alone (Linux 6.6 to 6.9).
bool pid_filter_is_of_threads(std::string_view kernel_release);

inline constexpr int uprobe_multi_attach_type = 48;  // BPF_TRACE_UPROBE_MULTI of linux/bpf.h

/// What to attach to, and when to stop.
struct AttachRequest {
  int program = -1;
  std::span<const FileSites> files;
  std::optional<pid_t> pid;
  const std::atomic<bool>* stop = nullptr;
  bool at_return = false;  ///< of functions: all of the sites are where one begins

  [[nodiscard]] bool stopped() const { return stop != nullptr && stop->load(); }
};

/// Attaches the program (loaded for the attach type above) with as few links as possible. As
/// Tracer::attach.
Result<Attachment> attach_uprobe_multi(const AttachRequest& request);

/// The same with a perf event for each site; the program loaded without an attach type.
Result<Attachment> attach_perf_uprobes(const AttachRequest& request);

/// A site's cookie (wire/trace.h).
std::uint64_t cookie_of(const AttachSite& site);

}  // namespace vitrine::bpf
