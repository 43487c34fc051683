/* SPDX-License-Identifier: Apache-2.0 */
/* Static probes: named places in a program that can be traced from outside at any time. Until then
 * each is a nop and a note in the file (SDT v3, which gdb, bpftrace, perf and systemtap read).
 * C99 and C++11 upwards, gcc and clang; guide: docs/probes.md.
 *
 *   VITRINE_TYPED_PROBE(shop, order, (id), (item, name), (price, order->total));
 *
 * prints in `vitrine trace` as order(id=17, item="kettle", price=2.5).
 *
 *   VITRINE_PROBE(provider, name, value, …)          up to twelve values, as in <sys/sdt.h>
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
#define VITRINE_PROBE(provider, ...) \
  VITRINE_PROBE_(#provider, VITRINE_SYMBOL(provider, __VA_ARGS__), \
                 VITRINE_ASM_SEMAPHORE(VITRINE_SYMBOL(provider, __VA_ARGS__)), __VA_ARGS__)
#define VITRINE_TYPED_PROBE(provider, ...) \
  VITRINE_DESCRIBED_PROBE(#provider, VITRINE_SYMBOL(provider, __VA_ARGS__), \
                          VITRINE_ASM_SEMAPHORE(VITRINE_SYMBOL(provider, __VA_ARGS__)), __VA_ARGS__)

#define VITRINE_LAZY_PROBE(provider, ...) \
  do { \
    if (VITRINE_PROBE_ENABLED(provider, VITRINE_FIRST(__VA_ARGS__))) VITRINE_PROBE(provider, __VA_ARGS__); \
  } while (0)
#define VITRINE_LAZY_TYPED_PROBE(provider, ...) \
  do { \
    if (VITRINE_PROBE_ENABLED(provider, VITRINE_FIRST(__VA_ARGS__))) \
      VITRINE_TYPED_PROBE(provider, __VA_ARGS__); \
  } while (0)

#define VITRINE_PROBE_ENABLED(provider, name) \
  VITRINE_PROBE_ENABLED_(VITRINE_SEMAPHORE_SYMBOL(provider, name))

#define VITRINE_SEMAPHORE(symbol) \
  VITRINE_SEMAPHORE_DECLARE(symbol); \
  VITRINE_SEMAPHORE_ATTRIBUTES unsigned short symbol
#define VITRINE_SEMAPHORE_DECLARE(symbol) \
  VITRINE_C_LINKAGE unsigned short symbol __attribute__((visibility("hidden")))
#define VITRINE_SEMAPHORE_ENABLED(symbol) \
  (__builtin_expect(*(const volatile unsigned short *)&symbol, 0) != 0)
#define VITRINE_SHARED_PROBE(semaphore, provider, ...) \
  VITRINE_PROBE_(#provider, semaphore, , __VA_ARGS__)
#define VITRINE_SHARED_TYPED_PROBE(semaphore, provider, ...) \
  VITRINE_DESCRIBED_PROBE(#provider, semaphore, , __VA_ARGS__)

#define VITRINE_ENUM(name, value, Type) (name, value, Type, AS_ENUM)
#define VITRINE_BYTES(name, data, length) (name, data, length, AS_BYTES)

/* ---- */

#define VITRINE_SYMBOL(provider, ...) \
  VITRINE_SEMAPHORE_SYMBOL(provider, VITRINE_FIRST(__VA_ARGS__))
#define VITRINE_PROBE_(provider, semaphore, definition, ...) \
  VITRINE_ASM_STATEMENT( \
      VITRINE_ASM_PROBE(provider, VITRINE_STRING(VITRINE_FIRST(__VA_ARGS__)), semaphore, \
                        VITRINE_PLAIN_TEXT(__VA_ARGS__)) \
      VITRINE_ASM_BASE definition \
      :: VITRINE_PLAIN_OPERANDS(__VA_ARGS__))

/* Reads by assembler what it defined by assembler: a declaration would have to give the symbol's name
 * to a local variable, which g++ forgets in templates. */
#if defined __x86_64__
#define VITRINE_PROBE_ENABLED_(symbol) \
  VITRINE_ASM_TEST(symbol, int, "=@ccne", \
                   "cmp{w $0, " VITRINE_STRING(symbol) "(%%rip)| WORD PTR " VITRINE_STRING(symbol) "[rip], 0}\n")
#elif defined __i386__
#define VITRINE_PROBE_ENABLED_(symbol) \
  VITRINE_ASM_TEST(symbol, int, "=&r", \
                   "call 990f\n990: pop{l %0| %0}\n" \
                   "movzw{l " VITRINE_STRING(symbol) "-990b(%0), %0| %0, WORD PTR " VITRINE_STRING(symbol) "-990b[%0]}\n")
#elif defined __aarch64__
#define VITRINE_PROBE_ENABLED_(symbol) \
  VITRINE_ASM_TEST(symbol, long, "=r", \
                   "adrp %0, " VITRINE_STRING(symbol) "\n" \
                   "ldrh %w0, [%0, #:lo12:" VITRINE_STRING(symbol) "]\n")
#else
#define VITRINE_PROBE_ENABLED_(symbol) \
  (__extension__({ \
    extern unsigned short VITRINE_PASTE(vitrine_, symbol) __asm__(VITRINE_STRING(symbol)) \
        __attribute__((visibility("hidden"))); \
    VITRINE_ASM_STATEMENT(VITRINE_ASM_SEMAPHORE(symbol)); \
    VITRINE_SEMAPHORE_ENABLED(VITRINE_PASTE(vitrine_, symbol)); \
  }))
#endif
#define VITRINE_ASM_TEST(symbol, type, constraint, instructions) \
  (__extension__({ \
    type vitrine_enabled; \
    VITRINE_ASM_STATEMENT(instructions VITRINE_ASM_SEMAPHORE(symbol) : constraint(vitrine_enabled)); \
    __builtin_expect(vitrine_enabled, 0) != 0; \
  }))

#ifdef __cplusplus
#define VITRINE_C_LINKAGE extern "C"
#else
#define VITRINE_C_LINKAGE extern
#endif
#if VITRINE_SDT_RETAIN
#define VITRINE_SEMAPHORE_ATTRIBUTES __attribute__((section(".probes"), used, retain))
#else
#define VITRINE_SEMAPHORE_ATTRIBUTES __attribute__((section(".probes"), used))
#endif

/* Never called: there for the notes inside it, as asm outside functions has no operands. */
#define VITRINE_ENUMERATORS(...) \
  __attribute__((used, unused)) static void VITRINE_PASTE(vitrine_enumerators_, __LINE__)(void) { \
    VITRINE_MAP(VITRINE_ENUMERATOR, VITRINE_NOTHING, __VA_ARGS__) \
  } \
  struct vitrine_semicolon
/* clang-format on */

#endif
