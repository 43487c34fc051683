/* SPDX-License-Identifier: Apache-2.0 */
/* Probes that describe themselves: a typed note (docs/typed-probes.md) beside the v3 note. */
#ifndef VITRINE_DETAIL_SDT_TYPED_H
#define VITRINE_DETAIL_SDT_TYPED_H

#pragma GCC system_header

#include "sdt_arguments.h"

/* clang-format off */
/* An argument is written as a tuple; VITRINE_FIELD(WHAT, n, tuple) is one thing about argument n:
 *
 *   (variable)                         named as it is spelt
 *   (name, value)
 *   (name, data, length)               text
 *   (name, value, Type, AS_ENUM)       what VITRINE_ENUM makes
 *   (name, data, length, AS_BYTES)     what VITRINE_BYTES makes */
#define VITRINE_FIELD(what, n, tuple) VITRINE_FIELD_(what, n, VITRINE_UNPACK tuple)
#define VITRINE_UNPACK(...) __VA_ARGS__
#define VITRINE_FIELD_(what, n, ...) \
  VITRINE_PASTE(VITRINE_TUPLE_, VITRINE_COUNT(_, __VA_ARGS__))(what, n, __VA_ARGS__)
#define VITRINE_TUPLE_1(what, n, x) VITRINE_##what##_AS_VALUE(n, x, x, )
#define VITRINE_TUPLE_2(what, n, name, x) VITRINE_##what##_AS_VALUE(n, name, x, )
#define VITRINE_TUPLE_3(what, n, name, x, length) VITRINE_##what##_AS_TEXT(n, name, x, length)
#define VITRINE_TUPLE_4(what, n, name, x, extra, tag) VITRINE_##what##_##tag(n, name, x, extra)

/* NAME, TYPE: string literals. */
#define VITRINE_NAME_AS_VALUE(n, name, x, extra) #name
#define VITRINE_NAME_AS_TEXT VITRINE_NAME_AS_VALUE
#define VITRINE_NAME_AS_ENUM VITRINE_NAME_AS_VALUE
#define VITRINE_NAME_AS_BYTES VITRINE_NAME_AS_VALUE
#define VITRINE_TYPE_AS_VALUE(n, name, x, extra) ""
#define VITRINE_TYPE_AS_TEXT VITRINE_TYPE_AS_VALUE
#define VITRINE_TYPE_AS_ENUM(n, name, x, type) #type
#define VITRINE_TYPE_AS_BYTES VITRINE_TYPE_AS_VALUE

/* BIND: in C++ a reference to the value, so that it is computed once and lives as long as the probe. */
#ifdef __cplusplus
#define VITRINE_BIND_AS_VALUE(n, name, x, extra) const auto& vitrine_value_##n = (x);
#define VITRINE_BIND_AS_TEXT(n, name, x, length) \
  VITRINE_BIND_AS_VALUE(n, , x, ) const auto& vitrine_length_##n = (length);
#define VITRINE_BOUND(kind, n, x) vitrine_##kind##_##n
#else
#define VITRINE_BIND_AS_VALUE(n, name, x, extra)
#define VITRINE_BIND_AS_TEXT(n, name, x, length)
#define VITRINE_BOUND(kind, n, x) x
#endif
#define VITRINE_BIND_AS_ENUM VITRINE_BIND_AS_VALUE
#define VITRINE_BIND_AS_BYTES VITRINE_BIND_AS_TEXT

/* KIND: enum vitrine_note_kind. */
#define VITRINE_KIND_AS_VALUE(n, name, x, extra) VITRINE_KIND(VITRINE_BOUND(value, n, x))
#define VITRINE_KIND_AS_TEXT(n, name, x, extra) 8
#define VITRINE_KIND_AS_ENUM(n, name, x, extra) 6
#define VITRINE_KIND_AS_BYTES(n, name, x, extra) 9

/* STRING, OPERANDS: of the v3 note. */
#define VITRINE_STRING_AS_VALUE(n, name, x, extra) VITRINE_ARGUMENT_TEXT(n) VITRINE_VIEW_TEXT(n)
#define VITRINE_STRING_AS_ENUM(n, name, x, extra) VITRINE_ARGUMENT_TEXT(n)
#define VITRINE_STRING_AS_TEXT(n, name, x, extra) \
  VITRINE_ARGUMENT_TEXT(n) ".ascii \" %c[vitrine_t" #n "]@" VITRINE_OPERAND("vitrine_l" #n) "\"\n"
#define VITRINE_STRING_AS_BYTES VITRINE_STRING_AS_TEXT
#define VITRINE_OPERANDS_AS_VALUE(n, name, x, extra) \
  VITRINE_DESCRIBED(n, VITRINE_BOUND(value, n, x))
#define VITRINE_OPERANDS_AS_ENUM(n, name, x, extra) \
  VITRINE_ARGUMENT(n, VITRINE_BOUND(value, n, x))
#define VITRINE_OPERANDS_AS_TEXT(n, name, x, bytes)                                  \
  VITRINE_ARGUMENT(n, VITRINE_BOUND(value, n, x)),                                    \
  [vitrine_t##n] "n"(VITRINE_SIGNED_SIZE(VITRINE_BOUND(length, n, bytes))),          \
  [vitrine_l##n] VITRINE_CONSTRAINT(VITRINE_VALUE(VITRINE_BOUND(length, n, bytes)))
#define VITRINE_OPERANDS_AS_BYTES VITRINE_OPERANDS_AS_TEXT

/* C++ finds out by itself that a value is text or bytes: only its compiler knows whether there is a
 * second argument. */
#ifdef __cplusplus
#define VITRINE_VIEW_TEXT(n)                                                          \
  ".if " VITRINE_ASM_KIND(n) " & 8\n"                                                 \
  ".ascii \" " VITRINE_STRING(__SIZEOF_SIZE_T__) "@" VITRINE_OPERAND("vitrine_l" #n) "\"\n"                \
  ".endif\n"
#else
#define VITRINE_VIEW_TEXT(n)
#define VITRINE_DESCRIBED(n, x) VITRINE_ARGUMENT(n, x)
#endif

/* Over all tuples of (name, tuple, …). */
#define VITRINE_EACH_BIND(_, n, tuple) VITRINE_FIELD(BIND, n, tuple)
#define VITRINE_EACH_STRING(_, n, tuple) VITRINE_FIELD(STRING, n, tuple)
#define VITRINE_EACH_OPERANDS(_, n, tuple) , VITRINE_FIELD(OPERANDS, n, tuple)
#define VITRINE_EACH_LOW(_, n, tuple) + VITRINE_KIND_BITS(0, n, VITRINE_FIELD(KIND, n, tuple))
#define VITRINE_EACH_HIGH(_, n, tuple) + VITRINE_KIND_BITS(1, n, VITRINE_FIELD(KIND, n, tuple))
#define VITRINE_EACH_NOTE(_, n, tuple)                                                   \
  ".byte " VITRINE_ASM_KIND(n) "\n"                                                   \
  VITRINE_ASM(.asciz VITRINE_FIELD(NAME, n, tuple))                                   \
  VITRINE_ASM(.asciz VITRINE_FIELD(TYPE, n, tuple))

#define VITRINE_TYPED_STRING(...) VITRINE_MAP(VITRINE_EACH_STRING, VITRINE_BLANK, __VA_ARGS__)
#define VITRINE_TYPED_OPERANDS(...)                                                   \
  [vitrine_k0] "n"(0 VITRINE_MAP(VITRINE_EACH_LOW, VITRINE_NOTHING, __VA_ARGS__)),    \
  [vitrine_k1] "n"(0 VITRINE_MAP(VITRINE_EACH_HIGH, VITRINE_NOTHING, __VA_ARGS__))    \
  VITRINE_MAP(VITRINE_EACH_OPERANDS, VITRINE_NOTHING, __VA_ARGS__)

/* The typed note. Same address as the v3 note before it. */
#define VITRINE_ASM_TYPED(provider, ...)                                              \
  VITRINE_ASM_NOTE(.note.vitrine.probes, "vitrine", 1)                                \
  VITRINE_ASM(VITRINE_ASM_ADDRESS 990b)                                               \
  VITRINE_ASM(.byte VITRINE_COUNT(__VA_ARGS__))                                       \
  VITRINE_ASM(.asciz provider)                                                        \
  VITRINE_ASM(.asciz VITRINE_STRING(VITRINE_FIRST(__VA_ARGS__)))                      \
  VITRINE_MAP(VITRINE_EACH_NOTE, VITRINE_NOTHING, __VA_ARGS__)                        \
  VITRINE_ASM_NOTE_END

/* provider: a string literal; definition: asm that defines the semaphore, or nothing. */
#define VITRINE_DESCRIBED_PROBE(provider, semaphore, definition, ...)                 \
  do {                                                                                \
    VITRINE_MAP(VITRINE_EACH_BIND, VITRINE_NOTHING, __VA_ARGS__)                      \
    VITRINE_ASM_STATEMENT(                                                            \
        VITRINE_ASM_PROBE(provider, VITRINE_STRING(VITRINE_FIRST(__VA_ARGS__)),       \
                          semaphore, VITRINE_TYPED_STRING(__VA_ARGS__))               \
        VITRINE_ASM_TYPED(provider, __VA_ARGS__)                                      \
        VITRINE_ASM_BASE definition                                                   \
        :: VITRINE_TYPED_OPERANDS(__VA_ARGS__));                                      \
  } while (0)

/* A note of one enumerator. */
#ifdef __cplusplus
#define VITRINE_ENUMERATOR_VALUE(Type, x) static_cast<long long>(Type::x)
#else
#define VITRINE_ENUMERATOR_VALUE(Type, x) ((long long)(x))
#endif
#define VITRINE_ENUMERATOR(Type, n, x)                                                \
  VITRINE_ASM_STATEMENT(                                                              \
      VITRINE_ASM_NOTE(.note.vitrine.probes, "vitrine", 2)                            \
      ".8byte %c[vitrine_value]\n"                                                    \
      VITRINE_ASM(.asciz VITRINE_STRING(Type))                                        \
      VITRINE_ASM(.asciz VITRINE_STRING(x))                                           \
      VITRINE_ASM_NOTE_END                                                            \
      :: [vitrine_value] "i"(VITRINE_ENUMERATOR_VALUE(Type, x)));
/* clang-format on */

#endif
