// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// What the profiling program keeps: its settings, and the room to work in. Included after
// kernel_types.bpf.h and libbpf's helpers.
#pragma once

#include "../wire/profile.h"

/// Behind the labels: the kernel's stack, the registers, the copy of the stack, and a page in which
/// a last piece of any size can be written.
#define LABEL_BUFFER_TAIL (VITRINE_STACK_COPY + 2 * 4096)
#include "event.bpf.h"

_Static_assert(VITRINE_PROFILE_COUNTERS <= COUNTERS, "room for every counter");

#define SAMPLE_BYTES (LABEL_BUFFER_BYTES + VITRINE_STACK_COPY + 4096) /* most of one */

_Static_assert(SAMPLE_BYTES <= VITRINE_BLOCKS * VITRINE_BLOCK_BYTES, "blocks for every sample");

/// Written by the loader.
struct vitrine_profile_config profile_config;

/// Room for one sample.
struct scratch {
  __u32 claimed, index;
  struct vitrine_pending pending;
  struct label_room room;
};

/// Ticks come in interrupts, and switches happen with interrupts off: one is enough.
#define SCRATCHES_PER_CPU 1
#include "scratch.bpf.h"

/// Where in a sample anything can be written that has no more than a page. Null: beyond its end.
static __always_inline void* sample_at(struct label_buffer* out, __u64 offset) {
  asm volatile("" : "+r"(offset));
  return offset > SAMPLE_BYTES ? 0 : out->bytes + offset;
}
