// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The kernel types that our programs look into, with only the members they use. CO-RE relocates
// every access to where the running kernel has the member, so order and size do not matter here.
#pragma once

#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
  unsigned int inum;
};

struct pid_namespace {
  struct ns_common ns;
};

struct upid {
  int nr;
  struct pid_namespace* ns;
};

struct pid {
  unsigned int level;
  struct upid numbers[1];
};

#if defined(__TARGET_ARCH_x86)
struct desc_struct {
  __u16 limit0;
};
#endif

struct thread_struct {
#if defined(__TARGET_ARCH_x86)
  struct desc_struct tls_array[3];
  unsigned short gsindex;
  unsigned long fsbase;
#elif defined(__TARGET_ARCH_arm64)
  struct {
    unsigned long tp_value;
  } uw;
#else
#error "no thread pointer known for this machine"
#endif
};

struct super_block {
  unsigned int s_dev;
};

struct inode {
  unsigned long i_ino;
  struct super_block* i_sb;
};

struct file {
  struct inode* f_inode;
};

struct vm_unmapped_area_info {
  unsigned long length;
};

struct mm_struct {
  unsigned long start_code;
  unsigned long end_code;
  unsigned long start_stack;
  struct file* exe_file;
};

struct thread_info {
  unsigned int cpu;
};

struct task_struct {
  struct thread_info thread_info;
  unsigned int __state;
  int on_cpu;
  unsigned int flags;
  int pid;
  int tgid;
  unsigned long nvcsw;
  unsigned long nivcsw;
  __u64 start_boottime;
  __u64 self_exec_id;
  struct mm_struct* mm;
  struct task_struct* real_parent;
  struct task_struct* group_leader;
  struct pid* thread_pid;
  char comm[16];
  struct thread_struct thread;
};

struct seq_file;

struct bpf_iter_meta {
  struct seq_file* seq;
};

struct bpf_iter__task {
  struct bpf_iter_meta* meta;
  struct task_struct* task;
};

#pragma clang attribute pop
