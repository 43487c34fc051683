// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Makes is-enabled checks true (docs/formats/dof.md, "Site patterns"): at the check's own site the
// result is always yes. Without a tracer there is no uprobe, and the program's own code makes it no.
#include "bpf/kernel/kernel_types.bpf.h"
// The helpers' declarations want the types above.
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>

#include "bpf/wire/trace.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Words of the user's pt_regs (probe/operand.h). */
#if defined(__TARGET_ARCH_x86)
#define RETURN_VALUE 10
#define FIRST_ARGUMENT 14
#define STACK_POINTER 19
#else
#define RETURN_VALUE 0
#define FIRST_ARGUMENT 0
#define STACK_POINTER 31
#endif

/// DOF version 2: the site is behind the instruction that clears the return value.
SEC("uprobe")
int enable_in_register(__u64* ctx) {
  ctx[RETURN_VALUE] = 1;
  return 0;
}

/// DOF version 3: argument 0 is where the result goes, 32 bits.
SEC("uprobe")
int enable_at_pointer(const __u64* ctx) {
  const __u64 cookie = bpf_get_attach_cookie((void*)ctx);
  __u64 pointer = ctx[FIRST_ARGUMENT];
  if (cookie & VITRINE_ENABLED_ON_STACK) {
    __u32 narrow = 0;
    bpf_probe_read_user(&narrow, sizeof narrow,
                        (const void*)(ctx[STACK_POINTER] + (cookie & 0xff)));
    pointer = narrow;
  }
  const __u32 yes = 1;
  bpf_probe_write_user((void*)pointer, &yes, sizeof yes);
  return 0;
}
