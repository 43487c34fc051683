// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Facts about a task and its registers that several programs want. Included after kernel_types.bpf.h
// and libbpf's helpers.
#pragma once

/// A function that the verifier looks at once, by itself, whatever calls it: what it is given may be
/// null, for all it knows.
#define VERIFIED_ALONE __attribute__((noinline))

/// x86-64 FS base, aarch64 TPIDR_EL0, as of when the thread was last switched out: a C library
/// never changes it after a thread's start.
static __always_inline __u64 thread_pointer_of(const struct task_struct* task) {
#if defined(__TARGET_ARCH_x86)
  return BPF_CORE_READ(task, thread.fsbase);
#else
  return BPF_CORE_READ(task, thread.uw.tp_value);
#endif
}

/// The same of a task that the verifier trusts, such as the current one's: a plain load takes a
/// fraction of a probe read.
static __always_inline __u64 thread_pointer_of_trusted(const struct task_struct* task) {
#if defined(__TARGET_ARCH_x86)
  return task->thread.fsbase;
#else
  return task->thread.uw.tp_value;
#endif
}

#if defined(__TARGET_ARCH_x86)
#define USER32_CS 0x23 /* asm/segment.h */
#define GDT_ENTRY_TLS_MIN 12

/// The base of %gs in a 32-bit program, which a descriptor of its own has: that of the selector with which it was
/// switched out last, or the first one, which C libraries take. The kernel keeps none of these bases elsewhere.
static __always_inline __u64 base_of_gs(const struct task_struct* task) {
  __u64 descriptors[3] = {};
  if (bpf_core_read(descriptors, sizeof descriptors, &task->thread.tls_array)) return 0;
  const __u32 number = (__u32)(BPF_CORE_READ(task, thread.gsindex) >> 3) - GDT_ENTRY_TLS_MIN;
  const __u64 descriptor = number == 1   ? descriptors[1]
                           : number == 2 ? descriptors[2]
                                         : descriptors[0];
  return (descriptor >> 16 & 0xffffff) | (descriptor >> 32 & 0xff000000);
}
#endif

#define PF_EXITING 0x4 /* linux/sched.h; no type information has it */

/// Whether a thread with these flags has run its last user code. Its memory may be another thread's
/// by now: pthread_join returns, and the next thread gets the stack and what is thread-local on it,
/// before the kernel is done with the old one.
static __always_inline int is_exiting(unsigned int flags) {
  return (flags & PF_EXITING) != 0;
}

/* linux/sched.h: PF_IO_WORKER, PF_USER_WORKER (6.4), PF_KTHREAD */
#define PF_OF_THE_KERNEL (0x10 | 0x4000 | 0x200000)

/// Whether a thread with these flags has no user code, though it may have a process's memory.
static __always_inline int is_of_the_kernel(unsigned int flags) {
  return (flags & PF_OF_THE_KERNEL) != 0;
}

/// How often it was switched out. The count is raised before a thread leaves its CPU.
static __always_inline __u64 switches_of(const struct task_struct* task) {
  return *(const volatile unsigned long*)&task->nvcsw +
         *(const volatile unsigned long*)&task->nivcsw;
}

/// How deep the pid namespace of this task is below the initial one.
static __always_inline __u32 pid_level_of(const struct task_struct* task) {
  return BPF_CORE_READ(task, thread_pid, level);
}

/// Its number and its pid namespace at `level`; null when it has none there.
static __always_inline const char* upid_at_level(const struct task_struct* task, __u32 level) {
  const char* pid = (const char*)BPF_CORE_READ(task, thread_pid);
  if (!pid || level > pid_level_of(task)) return 0;
  // An index that is not a constant cannot be relocated, so the two offsets are, one by one.
  return pid + bpf_core_field_offset(struct pid, numbers) + level * bpf_core_type_size(struct upid);
}

/// What the pid namespace at `level` calls this thread; 0 when it has none at this level. For a thread that is known to
/// be visible in the reader's.
static __always_inline int tid_at_level(const struct task_struct* task, __u32 level) {
  const char* upid = upid_at_level(task, level);
  int nr = 0;
  if (upid) bpf_probe_read_kernel(&nr, sizeof nr, upid + bpf_core_field_offset(struct upid, nr));
  return nr;
}

/// What the pid namespace with this inode number, at `level`, calls this thread; 0 when it is not visible there. Other
/// containers have namespaces of their own at the same level.
static __always_inline int tid_in_namespace(const struct task_struct* task, __u32 level,
                                            __u32 inode) {
  const char* upid = upid_at_level(task, level);
  if (!upid) return 0;
  const struct pid_namespace* its = 0;
  bpf_probe_read_kernel(&its, sizeof its, upid + bpf_core_field_offset(struct upid, ns));
  if (!its || BPF_CORE_READ(its, ns.inum) != inode) return 0;
  int nr = 0;
  bpf_probe_read_kernel(&nr, sizeof nr, upid + bpf_core_field_offset(struct upid, nr));
  return nr;
}

// The registers of user code as the kernel keeps them: words of struct pt_regs (aarch64: of its
// user_pt_regs).

#if defined(__TARGET_ARCH_x86)
#define REGISTER_WORDS 21
#define INSTRUCTION_POINTER 16
#define CODE_SEGMENT 17
#define STACK_POINTER 19

/// Without a branch: the verifier goes through all that follows for each side of one.
static __always_inline int is_user_mode(const __u64* registers) {
  return ((registers[CODE_SEGMENT] & 3) + 1) >> 2; /* the privilege level in cs is 3 */
}
#else
#define REGISTER_WORDS 34
#define INSTRUCTION_POINTER 32
#define CODE_SEGMENT 33 /* there is none: any word */
#define STACK_POINTER 31

static __always_inline int is_user_mode(const __u64* registers) {
  return ((registers[33] & 15) - 1) >> 63; /* the exception level in pstate is 0 */
}
#endif
