// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Room to work in, claimed and given back: a program can be interrupted by another on the same CPU,
// or sleep meanwhile, so it is not one a CPU. Included after the program's own `struct scratch`,
// which begins with `__u32 claimed, index`, and SCRATCHES_PER_CPU.
#pragma once

const volatile __u32 scratch_count = 1;

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct scratch);
} scratches SEC(".maps");

#define SCRATCH_TRIES 16

#define NO_SCRATCH (~0U)

/// `into`: where to write the index of the scratch, which is the caller's then.
static long try_to_claim(__u32 tried, void* into) {
  __u32* claimed = into;
  // Beyond its own, those of the next CPUs; there may be one for all.
  const __u32 first = bpf_get_smp_processor_id() * SCRATCHES_PER_CPU;
  __u32 index = (first + tried) % scratch_count;
  struct scratch* scratch = bpf_map_lookup_elem(&scratches, &index);
  if (!scratch || __sync_val_compare_and_swap(&scratch->claimed, 0, 1) != 0) return 0;
  scratch->index = index;
  *claimed = index;
  return 1;
}

/// Of a scratch that is the caller's now. NO_SCRATCH: all that this CPU may use are taken.
VERIFIED_ALONE __u32 claim_index(void) {
  __u32 index = NO_SCRATCH;
  loop_rarely(SCRATCH_TRIES, try_to_claim, &index);
  return index;
}

/// Null when all that this CPU may use are taken. The first is most often free.
static __always_inline struct scratch* claim_scratch(void) {
  __u32 index = bpf_get_smp_processor_id() * SCRATCHES_PER_CPU % scratch_count;
  struct scratch* first = bpf_map_lookup_elem(&scratches, &index);
  if (first && __sync_val_compare_and_swap(&first->claimed, 0, 1) == 0) {
    first->index = index;
    return first;
  }
  index = claim_index();
  return index == NO_SCRATCH ? 0 : bpf_map_lookup_elem(&scratches, &index);
}

/// The same scratch as what it is, an element of a map: until Linux 6.2 other maps take no keys and
/// values from what a function that is verified alone was given. Never null.
static __always_inline struct scratch* as_element(const struct scratch* scratch) {
  const __u32 index = scratch->index;
  return bpf_map_lookup_elem(&scratches, &index);
}

static __always_inline void release_scratch(struct scratch* scratch) {
  __sync_lock_test_and_set(&scratch->claimed, 0);
}
