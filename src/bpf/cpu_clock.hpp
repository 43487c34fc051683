// The CPU clock as a perf event: what samplers run on.
#pragma once

#include <sys/types.h>

#include "base/result.hpp"

struct bpf_link;
struct bpf_program;
struct perf_event_attr;

namespace vitrine::bpf {

/// A software clock of a CPU that does not tick while it idles; neither period nor frequency is set.
perf_event_attr cpu_clock();

/// Runs `program` at each tick, in thread `tid` as we see it (-1: any) on `cpu` (-1: any). The link
/// is to be destroyed, and the event ends with it. Errors: not_found (no such CPU or thread),
/// not_permitted, failed.
Result<bpf_link*> attach_to_clock(const bpf_program* program, perf_event_attr& clock, pid_t tid,
                                  int cpu);

}  // namespace vitrine::bpf
