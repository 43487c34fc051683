/* Threads whose stacks are nowhere, or have no end. Each uses CPU time and sleeps in turn, so that
 * samples of both kinds are taken of it. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "trick.h"

/* void spin_on(void* stack_pointer, void* frame_pointer): never returns. */
__asm__(
    ".text\n"
    ".type spin_on, @function\n"
    "spin_on:\n"
    ".cfi_startproc\n"
    "sub $16, %rsp\n"
    ".cfi_adjust_cfa_offset 16\n"
    "movq $0, (%rsp)\n"
    "movq $4000000, 8(%rsp)\n"
    "mov %rsp, %r12\n"
    "mov %rdi, %rsp\n"
    "mov %rsi, %rbp\n"
    "1: mov $300000, %rcx\n"
    "2: dec %rcx\n"
    "jnz 2b\n"
    "mov $35, %eax\n" /* nanosleep */
    "mov %r12, %rdi\n"
    "xor %esi, %esi\n"
    "syscall\n"
    "jmp 1b\n"
    ".cfi_endproc\n"
    ".size spin_on, .-spin_on\n");
extern void spin_on(void* stack, void* frame);

static void spin_with_stack(void* stack) {
  spin_on(stack, stack);
}

static void spin_with_frame(void* frame) {
  spin_on(__builtin_frame_address(0), frame);
}

static void stack_pointers(void) {
  void* const to[] = {NULL,
                      (void*)8,
                      (void*)0x7ffffffff000,
                      (void*)0x800000000000,
                      (void*)0xffff888000000000,
                      (void*)UINTPTR_MAX,
                      (void*)(UINTPTR_MAX - 7),
                      edge(1),
                      edge(1) - 3,
                      pages(1, PROT_NONE),
                      pages_that_never_come(1) + 100,
                      device_page()};
  for (size_t i = 0; i < sizeof to / sizeof *to; ++i) in_thread(spin_with_stack, to[i]);
}

static void frames(void) {
  static uintptr_t circle[4];
  circle[0] = (uintptr_t)&circle[2];
  circle[1] = circle[3] = (uintptr_t)frames;
  circle[2] = (uintptr_t)circle;
  in_thread(spin_with_frame, circle);
  in_thread(spin_with_frame, pages_that_never_come(1));
  in_thread(spin_with_frame, (void*)UINTPTR_MAX);
  char* full = pages(64, PROT_READ | PROT_WRITE);
  for (int i = 0; i < 64 * page / 8; ++i) ((uintptr_t*)full)[i] = (uintptr_t)frames + 4;
  in_thread(spin_with_stack, full + 8);
}

/* Functions whose call frame information has no end or leads nowhere. */
#define SPIN               \
  "1: mov $300000, %rcx\n" \
  "2: dec %rcx\n"          \
  "jnz 2b\n"               \
  "mov $35, %eax\n"        \
  "mov %rdi, %r12\n"       \
  "xor %esi, %esi\n"       \
  "syscall\n"              \
  "mov %r12, %rdi\n"       \
  "jmp 1b\n"
#define FUNCTION(name, rules)                                                                     \
  ".type " name ", @function\n" name ":\n.cfi_startproc\n" rules SPIN ".cfi_endproc\n.size " name \
  ", .-" name "\n"
__asm__(".text\n"
        /* DW_CFA_def_cfa_expression: DW_OP_skip to itself. */
        FUNCTION("cfi_skips_for_ever", ".cfi_escape 0x0f, 3, 0x2f, 0xfd, 0xff\n")
        /* DW_OP_lit1, DW_OP_bra to where a one is pushed again. */
        FUNCTION("cfi_branches_for_ever", ".cfi_escape 0x0f, 4, 0x31, 0x28, 0xfc, 0xff\n")
        /* Its caller is itself, on the same stack. */
        FUNCTION("cfi_stands_still",
                 ".cfi_def_cfa rsp, 0\n.cfi_escape 0x16, 16, 2, 0x80, 0\n.cfi_same_value rsp\n")
        /* The value of a register is at an address that only it tells. */
        FUNCTION("cfi_derefs", ".cfi_escape 0x0f, 6, 0x77, 0, 6, 6, 6, 6\n")
        /* Rules remembered a thousand times, never restored. */
        FUNCTION("cfi_remembers", ".rept 1000\n.cfi_remember_state\n.endr\n")
        /* DW_OP_dup without end on a stack of operands. */
        FUNCTION("cfi_piles_up",
                 ".cfi_escape 0x0f, 0xc8, 0x01, 0x31\n.rept 199\n.cfi_escape 0x12\n.endr\n")
        /* DW_CFA_advance_loc4 by four thousand million. */
        FUNCTION("cfi_runs_out", ".cfi_escape 0x04, 0xff, 0xff, 0xff, 0xff\n"));
extern void cfi_skips_for_ever(void*), cfi_branches_for_ever(void*), cfi_stands_still(void*),
    cfi_derefs(void*), cfi_remembers(void*), cfi_piles_up(void*), cfi_runs_out(void*);

static void call_frames(void) {
  static const long time[2] = {0, 4000000};
  void (*const all[])(void*) = {cfi_skips_for_ever, cfi_branches_for_ever, cfi_stands_still,
                                cfi_derefs,         cfi_remembers,         cfi_piles_up,
                                cfi_runs_out};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) in_thread(all[i], (void*)(uintptr_t)time);
}

static void descend(void* levels) {
  volatile char room[48];
  room[0] = 1;
  if (levels == NULL) {
    while (room[0]) {
      for (volatile int i = 0; i < 300000; ++i) {
      }
      rest_us(4000);
    }
    return;
  }
  descend((char*)levels - 1);
  room[1] = room[0];
}

static void deep(void) {
  in_thread(descend, (void*)400);
  in_thread(descend, (void*)500);
}

static void without_vdso(void) {
  char* vvar = device_page();
  if (vvar == NULL) cannot("no vvar");
  /* [vvar], [vvar_vclock] and [vdso] follow each other: 8 pages hold them all. */
  munmap(vvar, 8 * page);
  in_thread(spin_with_frame, NULL);
}

const struct trick stack_tricks[] = {
    {"stack-pointers", stack_pointers},      {"frame-pointers", frames},
    {"call-frame-information", call_frames}, {"stacks-deep", deep},
    {"vdso-unmapped", without_vdso},         {NULL, NULL}};
