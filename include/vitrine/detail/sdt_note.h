/* SPDX-License-Identifier: Apache-2.0 */
/* The v3 note of a probe ("stapsdt", docs/formats/sdt.md) and what comes with it: the instruction,
 * the base section, the semaphore. One text for C, C++ and assembler files. */
#ifndef VITRINE_DETAIL_SDT_NOTE_H
#define VITRINE_DETAIL_SDT_NOTE_H

#pragma GCC system_header

#include "sdt_macros.h"

#ifndef __ELF__
#error "probes are described in ELF notes: this target has none"
#endif

/* One line of assembler: a string in C, the line itself in a .S file. The words of a line are
 * stringized as they are, whatever the program defines; parameters of the macro that the line is in
 * have been replaced by then. VITRINE_DETAIL_ASM_ADDRESS(value): the line that writes an address. */
/* clang-format off */
#ifdef __ASSEMBLER__
#define VITRINE_DETAIL_ASM(...) __VA_ARGS__;
#ifdef __LP64__
#define VITRINE_DETAIL_ASM_ADDRESS(...) .8byte __VA_ARGS__;
#else
#define VITRINE_DETAIL_ASM_ADDRESS(...) .4byte __VA_ARGS__;
#endif
#else
#define VITRINE_DETAIL_ASM(...) #__VA_ARGS__ "\n"
/* The same, with a value that is made of macros. */
#define VITRINE_DETAIL_ASM_VALUE(directive, ...) directive " " VITRINE_DETAIL_STRING(__VA_ARGS__) "\n"
#ifdef __LP64__
#define VITRINE_DETAIL_ASM_ADDRESS(...) ".8byte " #__VA_ARGS__ "\n"
#else
#define VITRINE_DETAIL_ASM_ADDRESS(...) ".4byte " #__VA_ARGS__ "\n"
#endif
#endif
/* clang-format on */

/* VITRINE_SDT_NOP: 10 (x86-64 alone), or 1 for the plain nop of <sys/sdt.h>.
 *
 * The note always names a one-byte nop, which every kernel emulates. On x86-64 a ten-byte nop follows:
 * kernels that can replace it by a call (the "nop10" class) are attached there, at a fraction of the
 * cost. A five-byte nop would be optimised by Linux 6.18, but that overwrites the red zone, and forked
 * children crash (docs/formats/sdt.md, "Nops and kernels"). */
#ifndef VITRINE_SDT_NOP
#ifdef __x86_64__
#define VITRINE_SDT_NOP 10
#else
#define VITRINE_SDT_NOP 1
#endif
#endif
/* clang-format off */
#if VITRINE_SDT_NOP == 10
#define VITRINE_DETAIL_ASM_NOP \
  VITRINE_DETAIL_ASM(990: nop) \
  VITRINE_DETAIL_ASM(.byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0)
#elif defined __s390__ || defined __s390x__ || defined __ia64__
#define VITRINE_DETAIL_ASM_NOP VITRINE_DETAIL_ASM(990: nop 0)
#else
#define VITRINE_DETAIL_ASM_NOP VITRINE_DETAIL_ASM(990: nop)
#endif

/* VITRINE_SDT_RETAIN: 1 where sections can be marked so that no --gc-sections drops them
 * (SHF_GNU_RETAIN: binutils 2.36, clang 13). Without it gold, lld and mold drop the base section. */
#ifndef VITRINE_SDT_RETAIN
#if defined __ASSEMBLER__ && !defined __clang__
#if __GNUC__ >= 11 /* which came with the assembler that has it; gcc knows no attributes here */
#define VITRINE_SDT_RETAIN 1
#endif
#elif defined __has_attribute
#if __has_attribute(__retain__)
#define VITRINE_SDT_RETAIN 1
#endif
#endif
#endif
#ifndef VITRINE_SDT_RETAIN
#define VITRINE_SDT_RETAIN 0
#endif
#if VITRINE_SDT_RETAIN
#define VITRINE_DETAIL_ASM_BASE_FLAGS "aGR"
#define VITRINE_DETAIL_ASM_SEMAPHORE_FLAGS "awGR"
#else
#define VITRINE_DETAIL_ASM_BASE_FLAGS "aG"
#define VITRINE_DETAIL_ASM_SEMAPHORE_FLAGS "awG"
#endif

/* VITRINE_SDT_KEEP: 1 keeps all code with probes whatever --gc-sections does, for a byte each. With
 * gold it must be set if functions with probes may be dropped: gold refuses notes of dropped code,
 * where ld.bfd keeps the code, and lld and mold leave notes without an address. */
#if defined VITRINE_SDT_KEEP && VITRINE_SDT_KEEP
#define VITRINE_DETAIL_ASM_KEEP \
  VITRINE_DETAIL_ASM(.pushsection .vitrine.keep, "aR?", "progbits") \
  VITRINE_DETAIL_ASM(.byte 0) \
  VITRINE_DETAIL_ASM(.reloc 0, BFD_RELOC_NONE, 990b) \
  VITRINE_DETAIL_ASM(.popsection)
#else
#define VITRINE_DETAIL_ASM_KEEP
#endif

/* The head of a note; section, owner: string literals. It is in the group of the code around it ("?"): inline functions and templates
 * are kept or dropped together with their notes. Labels are numeric, because compilers copy asm. */
#define VITRINE_DETAIL_ASM_NOTE(section, owner, type) \
  VITRINE_DETAIL_ASM(.pushsection section, "?", "note") \
  VITRINE_DETAIL_ASM(.balign 4) \
  VITRINE_DETAIL_ASM(.4byte 992f - 991f, 994f - 993f, type) \
  VITRINE_DETAIL_ASM(991: .asciz owner) \
  VITRINE_DETAIL_ASM(992: .balign 4) \
  VITRINE_DETAIL_ASM(993:)
#define VITRINE_DETAIL_ASM_NOTE_END \
  VITRINE_DETAIL_ASM(994: .balign 4) \
  VITRINE_DETAIL_ASM(.popsection)

/* The instruction and its note. provider, name: string literals; semaphore: a symbol, or 0;
 * arguments: lines that write the argument string without its end. */
#define VITRINE_DETAIL_ASM_PROBE(provider, name, semaphore, arguments) \
  VITRINE_DETAIL_ASM_NOP \
  VITRINE_DETAIL_ASM_NOTE(".note.stapsdt", "stapsdt", 3) \
  VITRINE_DETAIL_ASM_ADDRESS(990b) \
  VITRINE_DETAIL_ASM_ADDRESS(_.stapsdt.base) \
  VITRINE_DETAIL_ASM_ADDRESS(semaphore) \
  VITRINE_DETAIL_ASM(.asciz provider) \
  VITRINE_DETAIL_ASM(.asciz name) \
  arguments \
  VITRINE_DETAIL_ASM(.byte 0) \
  VITRINE_DETAIL_ASM_NOTE_END \
  VITRINE_DETAIL_ASM_KEEP

/* By which readers see that prelink moved the file. Once a module. */
#define VITRINE_DETAIL_ASM_BASE VITRINE_DETAIL_ASM_BASE_(VITRINE_DETAIL_ASM_BASE_FLAGS)
#define VITRINE_DETAIL_ASM_BASE_(flags) \
  VITRINE_DETAIL_ASM(.ifndef _.stapsdt.base) \
  VITRINE_DETAIL_ASM(.pushsection .stapsdt.base, flags, "progbits", \
              .stapsdt.base, comdat) \
  VITRINE_DETAIL_ASM(.weak _.stapsdt.base) \
  VITRINE_DETAIL_ASM(.hidden _.stapsdt.base) \
  VITRINE_DETAIL_ASM(_.stapsdt.base: .space 1) \
  VITRINE_DETAIL_ASM(.size _.stapsdt.base, 1) \
  VITRINE_DETAIL_ASM(.popsection) \
  VITRINE_DETAIL_ASM(.endif)

/* Semaphores begin a page of the file. lld and mold map the page where RELRO ends twice. Both mappings
 * are writable until the dynamic linker has protected RELRO, and the kernel counts in the first: a
 * probe that is traced from the program's start would stay disabled. An empty section, of which a
 * module keeps one, gives .probes its alignment, for up to a page of padding. The page is the largest
 * that the processor has. */
#if defined __x86_64__ || defined __i386__
#define VITRINE_DETAIL_ASM_PAGE_ALIGNMENT VITRINE_DETAIL_ASM(.balign 4096)
#else
#define VITRINE_DETAIL_ASM_PAGE_ALIGNMENT VITRINE_DETAIL_ASM(.balign 65536)
#endif
#define VITRINE_DETAIL_ASM_SEMAPHORE_PAGE \
  VITRINE_DETAIL_ASM_SEMAPHORE_PAGE_(VITRINE_DETAIL_ASM_SEMAPHORE_FLAGS)
#define VITRINE_DETAIL_ASM_SEMAPHORE_PAGE_(flags) \
  VITRINE_DETAIL_ASM(.pushsection .probes, flags, "progbits", \
              vitrine.probes.page, comdat) \
  VITRINE_DETAIL_ASM_PAGE_ALIGNMENT \
  VITRINE_DETAIL_ASM(.popsection)

/* A semaphore that needs no definition elsewhere: one a module, hidden (another module's of the same
 * name must not take its place), weak (a definition by `dtrace -G` comes first), in the file (the
 * kernel counts in a page of the file: never .bss). */
#define VITRINE_DETAIL_ASM_SEMAPHORE(symbol) \
  VITRINE_DETAIL_ASM_SEMAPHORE_(symbol, VITRINE_DETAIL_ASM_SEMAPHORE_FLAGS)
#define VITRINE_DETAIL_ASM_SEMAPHORE_(symbol, flags) \
  VITRINE_DETAIL_ASM(.ifndef symbol) \
  VITRINE_DETAIL_ASM_SEMAPHORE_PAGE \
  VITRINE_DETAIL_ASM(.pushsection .probes, flags, "progbits", \
              symbol, comdat) \
  VITRINE_DETAIL_ASM(.balign 2) \
  VITRINE_DETAIL_ASM(.weak symbol) \
  VITRINE_DETAIL_ASM(.hidden symbol) \
  VITRINE_DETAIL_ASM(.type symbol, "object") \
  VITRINE_DETAIL_ASM(.size symbol, 2) \
  VITRINE_DETAIL_ASM(symbol: .2byte 0) \
  VITRINE_DETAIL_ASM(.popsection) \
  VITRINE_DETAIL_ASM(.endif)
/* clang-format on */

/* The symbol that tools expect for it (the systemtap ABI), of words as they are spelt. */
#define VITRINE_DETAIL_SEMAPHORE_SYMBOL(provider, name) provider##_##name##_semaphore

#endif
