// Making uprobes: one uprobe_multi link for many sites, or one perf event for each. Both end with
// their file descriptors.
#pragma once

#include <optional>
#include <span>

#include "bpf/tracer.hpp"

namespace vitrine::bpf {

/// Whether the kernel knows uprobe_multi (Linux 6.6), or will not say: then the error tells why.
Result<bool> has_uprobe_multi();

/// Whether the kernel's pid filter of uprobe_multi passes one thread alone (Linux 6.6 to 6.9).
bool pid_filter_is_of_threads(std::string_view kernel_release);

inline constexpr int uprobe_multi_attach_type = 48;  // BPF_TRACE_UPROBE_MULTI of linux/bpf.h

/// Attaches `program` (loaded for the attach type above) with as few links as possible. As
/// Tracer::attach.
Result<Attachment> attach_uprobe_multi(int program, int file, std::span<const AttachSite> sites,
                                       std::optional<pid_t> pid);

/// The same with a perf event for each site; `program` loaded without an attach type.
Result<Attachment> attach_perf_uprobes(int program, int file, std::span<const AttachSite> sites,
                                       std::optional<pid_t> pid);

/// A site's cookie (trace_wire.h).
std::uint64_t cookie_of(const AttachSite& site);

}  // namespace vitrine::bpf
