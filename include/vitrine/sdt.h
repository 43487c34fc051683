/* SPDX-License-Identifier: Apache-2.0 */
/* Static probes: named places in a program that can be traced from outside at any time. Until then
 * each is a nop and a note in the file (SDT v3, which gdb, bpftrace, perf and systemtap read).
 * C99 and C++11 upwards, gcc and clang; guide: docs/probes.md.
 *
 *   VITRINE_TYPED_PROBE(shop, order, (id), (item, name), (price, order->total));
 *
 * prints in `vitrine trace` as order(id=17, item="kettle", price=2.5).
 *
 *   VITRINE_PROBE(provider, name, value, …)          up to twelve values, as in <sys/sdt.h>; a local
 *                                                    buffer that only a tracer reads needs a typed one
 *   VITRINE_TYPED_PROBE(provider, name, tuple, …)    arguments with names and types, see below
 *   VITRINE_LAZY_PROBE, VITRINE_LAZY_TYPED_PROBE     their arguments are computed only while a tracer
 *                                                    is attached
 *   VITRINE_PROBE_ENABLED(provider, name)            true while a tracer is attached
 *
 * Each provider:name has its own semaphore, PROVIDER_NAME_semaphore, which needs no definition.
 * To share one semaphore between several probes:
 *
 *   VITRINE_SEMAPHORE(symbol)                        defines it, at file scope, in one file
 *   VITRINE_SEMAPHORE_DECLARE(symbol)                declares it in the other files
 *   VITRINE_SEMAPHORE_ENABLED(symbol)
 *   VITRINE_SHARED_PROBE(symbol, provider, name, …), VITRINE_SHARED_TYPED_PROBE(symbol, …)
 *
 * An argument of a typed probe:
 *
 *   (value)                              the expression is the name: for plain names and members
 *   (name, value)                        number, bool, pointer, C string; in C++ also enumerations,
 *                                        and containers of characters or bytes (string, string_view,
 *                                        span, vector)
 *   (name, data, length)                 text that need not end with NUL
 *   VITRINE_ENUM(name, value, Type)      shown as a name from VITRINE_ENUMERATORS
 *   VITRINE_BYTES(name, data, length)
 *
 * At most twelve in C and nine in C++ (gcc allows thirty operands); texts and bytes count twice in C.
 *
 *   VITRINE_ENUMERATORS(Type, name, …)               at file or namespace scope, after Type; up to
 *                                                    twelve names each, repeatable */
#ifndef VITRINE_SDT_H
#define VITRINE_SDT_H

#pragma GCC system_header

#include "detail/sdt_arguments.h"
#include "detail/sdt_typed.h"

/* clang-format off */
/* Provider and name are taken as they are spelt: stringized and pasted here, where they are not
 * expanded yet. (That "..." is empty where a probe has no arguments is an extension in strict C99 and
 * C++11 to 17, which compilers accept in a system header.) */
#define VITRINE_PROBE(provider, name, ...) \
  VITRINE_DETAIL_PROBE(#provider, #name, provider##_##name##_semaphore, VITRINE_DETAIL_ASM_SEMAPHORE(provider##_##name##_semaphore), \
                       0, ##__VA_ARGS__)
#define VITRINE_TYPED_PROBE(provider, name, ...) \
  VITRINE_DETAIL_TYPED_PROBE(#provider, #name, \
                             provider##_##name##_semaphore, VITRINE_DETAIL_ASM_SEMAPHORE(provider##_##name##_semaphore), \
                             0, ##__VA_ARGS__)

#define VITRINE_LAZY_PROBE(provider, name, ...) \
  do { \
    if (VITRINE_DETAIL_ENABLED(provider##_##name##_semaphore)) \
      VITRINE_DETAIL_PROBE(#provider, #name, \
                           provider##_##name##_semaphore, VITRINE_DETAIL_ASM_SEMAPHORE(provider##_##name##_semaphore), \
                           0, ##__VA_ARGS__); \
  } while (0)
#define VITRINE_LAZY_TYPED_PROBE(provider, name, ...) \
  do { \
    if (VITRINE_DETAIL_ENABLED(provider##_##name##_semaphore)) \
      VITRINE_DETAIL_TYPED_PROBE(#provider, #name, \
                                 provider##_##name##_semaphore, VITRINE_DETAIL_ASM_SEMAPHORE(provider##_##name##_semaphore), \
                                 0, ##__VA_ARGS__); \
  } while (0)

#define VITRINE_PROBE_ENABLED(provider, name) VITRINE_DETAIL_ENABLED(provider##_##name##_semaphore)

#define VITRINE_SEMAPHORE(symbol) \
  VITRINE_SEMAPHORE_DECLARE(symbol); \
  __asm__(VITRINE_DETAIL_ASM_SEMAPHORE_PAGE); \
  VITRINE_DETAIL_SEMAPHORE_ATTRIBUTES unsigned short symbol
#define VITRINE_SEMAPHORE_DECLARE(symbol) \
  VITRINE_DETAIL_C_LINKAGE unsigned short symbol __attribute__((__visibility__("hidden")))
#define VITRINE_SEMAPHORE_ENABLED(symbol) \
  (__builtin_expect(*(const volatile unsigned short *)&symbol, 0) != 0)
#define VITRINE_SHARED_PROBE(semaphore, provider, name, ...) \
  VITRINE_DETAIL_PROBE(#provider, #name, semaphore, , 0, ##__VA_ARGS__)
#define VITRINE_SHARED_TYPED_PROBE(semaphore, provider, name, ...) \
  VITRINE_DETAIL_TYPED_PROBE(#provider, #name, semaphore, , 0, ##__VA_ARGS__)

#define VITRINE_ENUM(name, value, Type) (name, value, Type, VITRINE_DETAIL_AS_ENUM)
#define VITRINE_BYTES(name, data, length) (name, data, length, VITRINE_DETAIL_AS_BYTES)

/* ---- */

/* provider, name: string literals; definition: asm that defines the semaphore, or nothing; after it 0
 * and the arguments. Their values are operands; memory that they point at is not, as in <sys/sdt.h>:
 * in probes of numbers a "memory" clobber would have the compiler load again what registers hold. */
#define VITRINE_DETAIL_PROBE(provider, name, semaphore, definition, ...) \
  VITRINE_DETAIL_ASM_STATEMENT( \
      VITRINE_DETAIL_ASM_PROBE(provider, name, semaphore, VITRINE_DETAIL_PLAIN_TEXT(__VA_ARGS__)) \
      VITRINE_DETAIL_ASM_BASE definition \
      :: VITRINE_DETAIL_PLAIN_OPERANDS(__VA_ARGS__))

/* Reads by assembler what it defined by assembler: a declaration would have to give the symbol's name
 * to a local variable, which g++ forgets in templates. */
#if defined __x86_64__
#define VITRINE_DETAIL_ENABLED(symbol) \
  VITRINE_DETAIL_ASM_TEST(symbol, int, "=@ccne", \
                   "cmp{w $0, " VITRINE_DETAIL_STRING(symbol) "(%%rip)| WORD PTR " VITRINE_DETAIL_STRING(symbol) "[rip], 0}\n")
#elif defined __i386__
#define VITRINE_DETAIL_ENABLED(symbol) \
  VITRINE_DETAIL_ASM_TEST(symbol, int, "=&r", \
                   "call 990f\n990: pop{l %0| %0}\n" \
                   "movzw{l " VITRINE_DETAIL_STRING(symbol) "-990b(%0), %0| %0, WORD PTR " VITRINE_DETAIL_STRING(symbol) "-990b[%0]}\n")
#elif defined __aarch64__
#define VITRINE_DETAIL_ENABLED(symbol) \
  VITRINE_DETAIL_ASM_TEST(symbol, long, "=r", \
                   "adrp %0, " VITRINE_DETAIL_STRING(symbol) "\n" \
                   "ldrh %w0, [%0, #:lo12:" VITRINE_DETAIL_STRING(symbol) "]\n")
#else
#define VITRINE_DETAIL_ENABLED(symbol) \
  (__extension__({ \
    extern unsigned short VITRINE_DETAIL_PASTE(vitrine_, symbol) __asm__(VITRINE_DETAIL_STRING(symbol)) \
        __attribute__((__visibility__("hidden"))); \
    VITRINE_DETAIL_ASM_STATEMENT(VITRINE_DETAIL_ASM_SEMAPHORE(symbol)); \
    VITRINE_SEMAPHORE_ENABLED(VITRINE_DETAIL_PASTE(vitrine_, symbol)); \
  }))
#endif
#define VITRINE_DETAIL_ASM_TEST(symbol, type, constraint, instructions) \
  (__extension__({ \
    type vitrine_enabled; \
    VITRINE_DETAIL_ASM_STATEMENT(instructions VITRINE_DETAIL_ASM_SEMAPHORE(symbol) : constraint(vitrine_enabled)); \
    __builtin_expect(vitrine_enabled, 0) != 0; \
  }))

#ifdef __cplusplus
#define VITRINE_DETAIL_C_LINKAGE extern "C"
#else
#define VITRINE_DETAIL_C_LINKAGE extern
#endif
#if VITRINE_SDT_RETAIN
#define VITRINE_DETAIL_SEMAPHORE_ATTRIBUTES __attribute__((__section__(".probes"), __used__, __retain__))
#else
#define VITRINE_DETAIL_SEMAPHORE_ATTRIBUTES __attribute__((__section__(".probes"), __used__))
#endif

/* Never called: there for the notes inside it, as asm outside functions has no operands. Numbered for the file that is
 * compiled: headers may have lists in lines of one number. */
#define VITRINE_ENUMERATORS(...) \
  __attribute__((__used__, __unused__)) static void VITRINE_DETAIL_PASTE(vitrine_enumerators_, __COUNTER__)(void) { \
    VITRINE_DETAIL_MAP(VITRINE_DETAIL_ENUMERATOR, VITRINE_DETAIL_NOTHING, __VA_ARGS__) \
  } \
  struct vitrine_semicolon
/* clang-format on */

#endif
