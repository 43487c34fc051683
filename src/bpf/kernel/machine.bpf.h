// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The registers of user code as the kernel keeps them: words of struct pt_regs (aarch64: of its
// user_pt_regs).
#pragma once

#if defined(__TARGET_ARCH_x86)
#define REGISTER_WORDS 21
#define INSTRUCTION_POINTER 16
#define STACK_POINTER 19

static __always_inline int is_user_mode(const __u64* registers) {
  return (registers[17] & 3) == 3; /* the privilege level in cs */
}
#else
#define REGISTER_WORDS 34
#define INSTRUCTION_POINTER 32
#define STACK_POINTER 31

static __always_inline int is_user_mode(const __u64* registers) {
  return (registers[33] & 15) == 0; /* the exception level in pstate */
}
#endif
