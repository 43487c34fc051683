/* SPDX-License-Identifier: Apache-2.0 */
/* The macros of systemtap's <sys/sdt.h>, for programs that use them today: put this folder
 * (…/include/vitrine/compat) on the include path, and they compile unchanged. Notes, argument
 * strings and semaphores are what every reader of that header's probes expects.
 *
 *   _SDT_HAS_SEMAPHORES       defined before inclusion: every probe of the file has the semaphore
 *                             PROVIDER_NAME_semaphore, which the program defines (`dtrace -h`, `-G`)
 *   SDT_USE_VARIADIC          defined before inclusion: STAP_PROBEV
 *   STAP_SDT_ARG_CONSTRAINT   where arguments may be, as a constraint of asm */
#ifndef _SYS_SDT_H
#define _SYS_SDT_H 1

#pragma GCC system_header

#ifdef __ASSEMBLER__
#include "../../detail/sdt_note.h"
#else
/* clang has no registers for a long double or a structure, and compiles no program that passes one
 * unless memory will do. It then puts every argument there: the default of <vitrine/sdt.h> does not. */
#define VITRINE_DETAIL_COMPAT 1
#include "../../detail/sdt_arguments.h"
#endif

#ifdef _SDT_HAS_SEMAPHORES
#define VITRINE_DETAIL_COMPAT_SEMAPHORE(provider, name) \
  VITRINE_DETAIL_SEMAPHORE_SYMBOL(provider, name)
#define VITRINE_DETAIL_COMPAT_SEMAPHORE_PAGE VITRINE_DETAIL_ASM_SEMAPHORE_PAGE
#else
#define VITRINE_DETAIL_COMPAT_SEMAPHORE(provider, name) 0
#define VITRINE_DETAIL_COMPAT_SEMAPHORE_PAGE
#endif

/* clang-format off */
/* The head that all forms share; arguments: lines that write the argument string. */
#define VITRINE_DETAIL_COMPAT_ASM(provider, name, arguments) \
  VITRINE_DETAIL_ASM_PROBE(VITRINE_DETAIL_STRING(provider), VITRINE_DETAIL_STRING(name), \
                    VITRINE_DETAIL_COMPAT_SEMAPHORE(provider, name), arguments) \
  VITRINE_DETAIL_ASM_BASE \
  VITRINE_DETAIL_COMPAT_SEMAPHORE_PAGE

#ifdef __ASSEMBLER__

/* In assembler files the arguments are operands as the assembler spells them. */
#define VITRINE_DETAIL_COMPAT_PROBE(provider, ...) \
  VITRINE_DETAIL_COMPAT_ASM(provider, VITRINE_DETAIL_FIRST(__VA_ARGS__), \
    VITRINE_DETAIL_MAP(VITRINE_DETAIL_COMPAT_OPERAND, VITRINE_DETAIL_COMPAT_BLANK, __VA_ARGS__))
#define VITRINE_DETAIL_COMPAT_OPERAND(zero, n, operand) VITRINE_DETAIL_ASM(.ascii VITRINE_DETAIL_STRING(operand))
#define VITRINE_DETAIL_COMPAT_BLANK() VITRINE_DETAIL_ASM(.ascii " ")

#else

#define VITRINE_DETAIL_COMPAT_PROBE(provider, ...) \
  do { \
    VITRINE_DETAIL_COMPAT_USE(provider, VITRINE_DETAIL_FIRST(__VA_ARGS__)); \
    VITRINE_DETAIL_ASM_STATEMENT( \
        VITRINE_DETAIL_COMPAT_ASM(provider, VITRINE_DETAIL_FIRST(__VA_ARGS__), \
                           VITRINE_DETAIL_PLAIN_TEXT(__VA_ARGS__)) \
        :: VITRINE_DETAIL_PLAIN_OPERANDS(__VA_ARGS__)); \
  } while (0)

/* A semaphore that nothing but a note refers to must reach the object all the same. */
#ifdef _SDT_HAS_SEMAPHORES
#define VITRINE_DETAIL_COMPAT_USE(provider, name) \
  __asm__ __volatile__("" :: "m"(VITRINE_DETAIL_SEMAPHORE_SYMBOL(provider, name)))
#else
#define VITRINE_DETAIL_COMPAT_USE(provider, name) (void)0
#endif

/* A probe inside an asm statement of the program's own:
 *
 *   asm volatile("before\n" STAP_PROBE_ASM(provider, name, %eax 4(%esi)) "after");
 *   asm volatile(STAP_PROBE_ASM(provider, name, STAP_PROBE_ASM_TEMPLATE(2))
 *                :: STAP_PROBE_ASM_OPERANDS(2, x, y));
 *
 * A template comes as twelve arguments, eleven of them empty: so it is not mistaken for operands,
 * which may have commas, too. */
#define STAP_PROBE_ASM(provider, ...) \
  VITRINE_DETAIL_COMPAT_ASM(provider, VITRINE_DETAIL_FIRST(__VA_ARGS__), \
    VITRINE_DETAIL_PASTE(VITRINE_DETAIL_COMPAT_ASM_, VITRINE_DETAIL_COUNT(__VA_ARGS__))(__VA_ARGS__))
#define STAP_PROBE_ASM_TEMPLATE(n) VITRINE_DETAIL_COMPAT_TEMPLATE_##n , , , , , , , , , , ,
#define STAP_PROBE_ASM_OPERANDS(...) VITRINE_DETAIL_PLAIN_OPERANDS(__VA_ARGS__)
#define VITRINE_DETAIL_COMPAT_ASM_12(name, template, ...) template
#define VITRINE_DETAIL_COMPAT_ASM_0(name)
#define VITRINE_DETAIL_COMPAT_ASM_1(name, ...) VITRINE_DETAIL_ASM_VALUE(".ascii", VITRINE_DETAIL_STRING_(__VA_ARGS__))
#define VITRINE_DETAIL_COMPAT_ASM_2 VITRINE_DETAIL_COMPAT_ASM_1
#define VITRINE_DETAIL_COMPAT_ASM_3 VITRINE_DETAIL_COMPAT_ASM_1
#define VITRINE_DETAIL_COMPAT_ASM_4 VITRINE_DETAIL_COMPAT_ASM_1
#define VITRINE_DETAIL_COMPAT_ASM_5 VITRINE_DETAIL_COMPAT_ASM_1
#define VITRINE_DETAIL_COMPAT_ASM_6 VITRINE_DETAIL_COMPAT_ASM_1
#define VITRINE_DETAIL_COMPAT_TEMPLATE_0 VITRINE_DETAIL_PLAIN_TEXT(0)
#define VITRINE_DETAIL_COMPAT_TEMPLATE_1 VITRINE_DETAIL_PLAIN_TEXT(0, a)
#define VITRINE_DETAIL_COMPAT_TEMPLATE_2 VITRINE_DETAIL_PLAIN_TEXT(0, a, b)
#define VITRINE_DETAIL_COMPAT_TEMPLATE_3 VITRINE_DETAIL_PLAIN_TEXT(0, a, b, c)
#define VITRINE_DETAIL_COMPAT_TEMPLATE_4 VITRINE_DETAIL_PLAIN_TEXT(0, a, b, c, d)
#define VITRINE_DETAIL_COMPAT_TEMPLATE_5 VITRINE_DETAIL_PLAIN_TEXT(0, a, b, c, d, e)
#define VITRINE_DETAIL_COMPAT_TEMPLATE_6 VITRINE_DETAIL_PLAIN_TEXT(0, a, b, c, d, e, f)
#define VITRINE_DETAIL_COMPAT_TEMPLATE_7 VITRINE_DETAIL_PLAIN_TEXT(0, a, b, c, d, e, f, g)
#define VITRINE_DETAIL_COMPAT_TEMPLATE_8 VITRINE_DETAIL_PLAIN_TEXT(0, a, b, c, d, e, f, g, h)
#define VITRINE_DETAIL_COMPAT_TEMPLATE_9 VITRINE_DETAIL_PLAIN_TEXT(0, a, b, c, d, e, f, g, h, i)
#define VITRINE_DETAIL_COMPAT_TEMPLATE_10 VITRINE_DETAIL_PLAIN_TEXT(0, a, b, c, d, e, f, g, h, i, j)
#define VITRINE_DETAIL_COMPAT_TEMPLATE_11 VITRINE_DETAIL_PLAIN_TEXT(0, a, b, c, d, e, f, g, h, i, j, k)
#define VITRINE_DETAIL_COMPAT_TEMPLATE_12 VITRINE_DETAIL_PLAIN_TEXT(0, a, b, c, d, e, f, g, h, i, j, k, l)

#ifdef SDT_USE_VARIADIC
#define STAP_PROBEV(provider, ...) VITRINE_DETAIL_COMPAT_PROBE(provider, __VA_ARGS__)
#endif

#endif /* __ASSEMBLER__ */

#define STAP_PROBE(provider, name) VITRINE_DETAIL_COMPAT_PROBE(provider, name)
#define STAP_PROBE1(p, n, a) VITRINE_DETAIL_COMPAT_PROBE(p, n, a)
#define STAP_PROBE2(p, n, a, b) VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b)
#define STAP_PROBE3(p, n, a, b, c) VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c)
#define STAP_PROBE4(p, n, a, b, c, d) VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c, d)
#define STAP_PROBE5(p, n, a, b, c, d, e) VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c, d, e)
#define STAP_PROBE6(p, n, a, b, c, d, e, f) VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c, d, e, f)
#define STAP_PROBE7(p, n, a, b, c, d, e, f, g) VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c, d, e, f, g)
#define STAP_PROBE8(p, n, a, b, c, d, e, f, g, h) VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c, d, e, f, g, h)
#define STAP_PROBE9(p, n, a, b, c, d, e, f, g, h, i) \
  VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c, d, e, f, g, h, i)
#define STAP_PROBE10(p, n, a, b, c, d, e, f, g, h, i, j) \
  VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c, d, e, f, g, h, i, j)
#define STAP_PROBE11(p, n, a, b, c, d, e, f, g, h, i, j, k) \
  VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c, d, e, f, g, h, i, j, k)
#define STAP_PROBE12(p, n, a, b, c, d, e, f, g, h, i, j, k, l) \
  VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c, d, e, f, g, h, i, j, k, l)

/* The names of DTrace's <sys/sdt.h>. */
#define DTRACE_PROBE(provider, name) VITRINE_DETAIL_COMPAT_PROBE(provider, name)
#define DTRACE_PROBE1(p, n, a) VITRINE_DETAIL_COMPAT_PROBE(p, n, a)
#define DTRACE_PROBE2(p, n, a, b) VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b)
#define DTRACE_PROBE3(p, n, a, b, c) VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c)
#define DTRACE_PROBE4(p, n, a, b, c, d) VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c, d)
#define DTRACE_PROBE5(p, n, a, b, c, d, e) VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c, d, e)
#define DTRACE_PROBE6(p, n, a, b, c, d, e, f) VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c, d, e, f)
#define DTRACE_PROBE7(p, n, a, b, c, d, e, f, g) VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c, d, e, f, g)
#define DTRACE_PROBE8(p, n, a, b, c, d, e, f, g, h) \
  VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c, d, e, f, g, h)
#define DTRACE_PROBE9(p, n, a, b, c, d, e, f, g, h, i) \
  VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c, d, e, f, g, h, i)
#define DTRACE_PROBE10(p, n, a, b, c, d, e, f, g, h, i, j) \
  VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c, d, e, f, g, h, i, j)
#define DTRACE_PROBE11(p, n, a, b, c, d, e, f, g, h, i, j, k) \
  VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c, d, e, f, g, h, i, j, k)
#define DTRACE_PROBE12(p, n, a, b, c, d, e, f, g, h, i, j, k, l) \
  VITRINE_DETAIL_COMPAT_PROBE(p, n, a, b, c, d, e, f, g, h, i, j, k, l)
/* clang-format on */

#endif
