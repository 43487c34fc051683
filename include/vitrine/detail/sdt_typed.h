/* SPDX-License-Identifier: Apache-2.0 */
/* Probes that describe themselves: a typed note (docs/typed-probes.md) beside the v3 note. */
#ifndef VITRINE_DETAIL_SDT_TYPED_H
#define VITRINE_DETAIL_SDT_TYPED_H

#pragma GCC system_header

#include "sdt_arguments.h"

/* clang-format off */
/* An argument is written as a tuple; VITRINE_DETAIL_FIELD(what, n, tuple) is one thing about
 * argument n, where `what` is VITRINE_DETAIL_NAME, _TYPE, _TAKE, _PASS, _BIND, _READ, _KIND, _TEXT or _OPERANDS:
 *
 *   (variable)                         named as it is spelt
 *   (name, value)
 *   (name, data, length)               text
 *   (name, value, Type, VITRINE_DETAIL_AS_ENUM)      what VITRINE_ENUM makes
 *   (name, data, length, VITRINE_DETAIL_AS_BYTES)    what VITRINE_BYTES makes */
#define VITRINE_DETAIL_FIELD(what, n, tuple) VITRINE_DETAIL_FIELD_(what, n, VITRINE_DETAIL_UNPACK tuple)
#define VITRINE_DETAIL_UNPACK(...) __VA_ARGS__
#define VITRINE_DETAIL_FIELD_(what, n, ...) \
  VITRINE_DETAIL_PASTE(VITRINE_DETAIL_TUPLE_, VITRINE_DETAIL_COUNT(0, __VA_ARGS__))(what, n, __VA_ARGS__)
#define VITRINE_DETAIL_TUPLE_1(what, n, x) what##_AS_VALUE(n, x, x, )
#define VITRINE_DETAIL_TUPLE_2(what, n, name, x) what##_AS_VALUE(n, name, x, )
#define VITRINE_DETAIL_TUPLE_3(what, n, name, x, length) what##_AS_TEXT(n, name, x, length)
#define VITRINE_DETAIL_TUPLE_4(what, n, name, x, extra, tag) tag(what, n, name, x, extra)
#define VITRINE_DETAIL_AS_ENUM(what, n, name, x, type) what##_AS_ENUM(n, name, x, type)
#define VITRINE_DETAIL_AS_BYTES(what, n, name, x, length) what##_AS_BYTES(n, name, x, length)

/* NAME, TYPE: string literals. */
#define VITRINE_DETAIL_NAME_AS_VALUE(n, name, x, extra) #name
#define VITRINE_DETAIL_NAME_AS_TEXT VITRINE_DETAIL_NAME_AS_VALUE
#define VITRINE_DETAIL_NAME_AS_ENUM VITRINE_DETAIL_NAME_AS_VALUE
#define VITRINE_DETAIL_NAME_AS_BYTES VITRINE_DETAIL_NAME_AS_VALUE
#define VITRINE_DETAIL_TYPE_AS_VALUE(n, name, x, extra) ""
#define VITRINE_DETAIL_TYPE_AS_TEXT VITRINE_DETAIL_TYPE_AS_VALUE
#define VITRINE_DETAIL_TYPE_AS_ENUM(n, name, x, type) #type
#define VITRINE_DETAIL_TYPE_AS_BYTES VITRINE_DETAIL_TYPE_AS_VALUE

/* TAKE, PASS: in C++ the values are arguments of a lambda that has the probe, with a reference to each as a
 * parameter. So they are computed once, and all temporaries live until the probe has fired, also those that a
 * value only points at (`text().c_str()`). C++11 has no such lambda: there BIND has the references, and a
 * temporary lives as long only if it is the value itself.
 *
 * BIND: in both languages the address that is passed, if one is: VITRINE_DETAIL_READ names it once more. */
#ifdef __cplusplus
#if __cplusplus >= 201402L
#define VITRINE_DETAIL_TAKE_AS_VALUE(n, name, x, extra) const auto& vitrine_value_##n
#define VITRINE_DETAIL_TAKE_AS_ENUM VITRINE_DETAIL_TAKE_AS_VALUE
#define VITRINE_DETAIL_TAKE_AS_TEXT(n, name, x, length) const auto &vitrine_value_##n, const auto &vitrine_length_##n
#define VITRINE_DETAIL_TAKE_AS_BYTES VITRINE_DETAIL_TAKE_AS_TEXT
#define VITRINE_DETAIL_PASS_AS_VALUE(n, name, x, extra) (x)
#define VITRINE_DETAIL_PASS_AS_ENUM VITRINE_DETAIL_PASS_AS_VALUE
#define VITRINE_DETAIL_PASS_AS_TEXT(n, name, x, length) (x), (length)
#define VITRINE_DETAIL_PASS_AS_BYTES VITRINE_DETAIL_PASS_AS_TEXT
#define VITRINE_DETAIL_REFER(reference, x)
#else
#define VITRINE_DETAIL_REFER(reference, x) const auto& reference = (x);
#endif
#define VITRINE_DETAIL_BIND_AS_ENUM(n, name, x, extra) VITRINE_DETAIL_REFER(vitrine_value_##n, x)
#define VITRINE_DETAIL_BIND_AS_VALUE(n, name, x, extra) \
  VITRINE_DETAIL_BIND_AS_ENUM(n, , x, ) \
  const auto vitrine_data_##n = VITRINE_DETAIL_DESCRIPTION(vitrine_value_##n)::vitrine_data(vitrine_value_##n);
#define VITRINE_DETAIL_BIND_AS_TEXT(n, name, x, length) \
  VITRINE_DETAIL_BIND_AS_ENUM(n, , x, ) VITRINE_DETAIL_REFER(vitrine_length_##n, length)
#define VITRINE_DETAIL_BOUND(variable, n, x) variable##n
#else
#define VITRINE_DETAIL_BIND_AS_ENUM(n, name, x, extra)
#define VITRINE_DETAIL_BIND_AS_VALUE(n, name, x, extra) \
  const volatile void* const vitrine_data_##n = VITRINE_DETAIL_ADDRESS(x);
#define VITRINE_DETAIL_BIND_AS_TEXT VITRINE_DETAIL_BIND_AS_VALUE
#define VITRINE_DETAIL_BOUND(variable, n, x) x
#endif
#define VITRINE_DETAIL_BIND_AS_BYTES VITRINE_DETAIL_BIND_AS_TEXT

/* READ: what an argument points at is read where the probe is. The operands of the probe are the
 * address and the length alone, so a compiler could drop stores to a local buffer, or leave them for
 * later (gcc does). This emits no code, but the address of a text must be in a register. It is on
 * both sides of the probe, because that has no memory among its operands, and has no room for it (gcc
 * permits thirty). A "memory" clobber would cost more: values in registers would be loaded again. */
#ifdef __cplusplus
#define VITRINE_DETAIL_READ_AS_VALUE(n, name, x, extra) \
  ::vitrine_sdt::vitrine_memory<decltype(vitrine_value_##n)>::vitrine_read(vitrine_data_##n);
#define VITRINE_DETAIL_READ_AS_TEXT(n, name, x, extra) \
  ::vitrine_sdt::vitrine_memory<decltype(vitrine_value_##n)>::vitrine_read(vitrine_value_##n);
#else
/* Bytes of any number. (clang has no operands of an unknown size. It takes an operand in memory for all memory.) */
#ifdef __clang__
#define VITRINE_DETAIL_MEMORY(address) *(const volatile char*)(address)
#else
#define VITRINE_DETAIL_MEMORY(address) *(const volatile char(*)[])(address)
#endif
#define VITRINE_DETAIL_READ_AS_VALUE(n, name, x, extra) \
  if (VITRINE_DETAIL_IS_POINTER(x)) VITRINE_DETAIL_ASM_STATEMENT("" ::"m"(VITRINE_DETAIL_MEMORY(vitrine_data_##n)));
#define VITRINE_DETAIL_READ_AS_TEXT VITRINE_DETAIL_READ_AS_VALUE
#endif
#define VITRINE_DETAIL_READ_AS_ENUM(n, name, x, extra)
#define VITRINE_DETAIL_READ_AS_BYTES VITRINE_DETAIL_READ_AS_TEXT

/* KIND: enum vitrine_note_kind. */
#define VITRINE_DETAIL_KIND_AS_VALUE(n, name, x, extra) VITRINE_DETAIL_KIND(VITRINE_DETAIL_BOUND(vitrine_value_, n, x))
#define VITRINE_DETAIL_KIND_AS_TEXT(n, name, x, extra) 8
#define VITRINE_DETAIL_KIND_AS_ENUM(n, name, x, extra) 6
#define VITRINE_DETAIL_KIND_AS_BYTES(n, name, x, extra) 9

/* TEXT, OPERANDS: of the v3 note. */
#define VITRINE_DETAIL_TEXT_AS_VALUE(n, name, x, extra) VITRINE_DETAIL_ARGUMENT_TEXT(n) VITRINE_DETAIL_VIEW_TEXT(n)
#define VITRINE_DETAIL_TEXT_AS_ENUM(n, name, x, extra) VITRINE_DETAIL_ARGUMENT_TEXT(n)
#define VITRINE_DETAIL_TEXT_AS_TEXT(n, name, x, extra) \
  VITRINE_DETAIL_ARGUMENT_TEXT(n) ".ascii \" %c[vitrine_t" #n "]@" VITRINE_DETAIL_OPERAND("vitrine_l" #n) "\"\n"
#define VITRINE_DETAIL_TEXT_AS_BYTES VITRINE_DETAIL_TEXT_AS_TEXT
#define VITRINE_DETAIL_OPERANDS_AS_VALUE(n, name, x, extra) \
  VITRINE_DETAIL_DESCRIBED(n, VITRINE_DETAIL_BOUND(vitrine_value_, n, x))
#define VITRINE_DETAIL_OPERANDS_AS_ENUM(n, name, x, extra) \
  VITRINE_DETAIL_ARGUMENT(n, VITRINE_DETAIL_BOUND(vitrine_value_, n, x))
#define VITRINE_DETAIL_OPERANDS_AS_TEXT(n, name, x, bytes) \
  VITRINE_DETAIL_ADDRESSED(n, VITRINE_DETAIL_BOUND(vitrine_value_, n, x)), \
  [vitrine_t##n] "n"(VITRINE_DETAIL_SIGNED_SIZE(VITRINE_DETAIL_BOUND(vitrine_length_, n, bytes))), \
  [vitrine_l##n] VITRINE_DETAIL_CONSTRAINT(VITRINE_DETAIL_VALUE(VITRINE_DETAIL_BOUND(vitrine_length_, n, bytes)))
#define VITRINE_DETAIL_OPERANDS_AS_BYTES VITRINE_DETAIL_OPERANDS_AS_TEXT

/* C++ finds out by itself that a value is text or bytes: only its compiler knows whether there is a
 * second argument. */
#ifdef __cplusplus
#define VITRINE_DETAIL_VIEW_TEXT(n) \
  ".if " VITRINE_DETAIL_ASM_KIND(n) " & 8\n" \
  ".ascii \" " VITRINE_DETAIL_STRING(__SIZEOF_SIZE_T__) "@" VITRINE_DETAIL_OPERAND("vitrine_l" #n) "\"\n" \
  ".endif\n"
#else
#define VITRINE_DETAIL_VIEW_TEXT(n)
#define VITRINE_DETAIL_DESCRIBED(n, x) VITRINE_DETAIL_ADDRESSED(n, x)
#endif

/* Over all tuples of (0, tuple, …). */
#define VITRINE_DETAIL_EACH_TAKE(zero, n, tuple) VITRINE_DETAIL_FIELD(VITRINE_DETAIL_TAKE, n, tuple)
#define VITRINE_DETAIL_EACH_PASS(zero, n, tuple) , VITRINE_DETAIL_FIELD(VITRINE_DETAIL_PASS, n, tuple)
#define VITRINE_DETAIL_EACH_BIND(zero, n, tuple) VITRINE_DETAIL_FIELD(VITRINE_DETAIL_BIND, n, tuple)
#define VITRINE_DETAIL_EACH_READ(zero, n, tuple) VITRINE_DETAIL_FIELD(VITRINE_DETAIL_READ, n, tuple)
#define VITRINE_DETAIL_EACH_TEXT(zero, n, tuple) VITRINE_DETAIL_FIELD(VITRINE_DETAIL_TEXT, n, tuple)
#define VITRINE_DETAIL_EACH_OPERANDS(zero, n, tuple) , VITRINE_DETAIL_FIELD(VITRINE_DETAIL_OPERANDS, n, tuple)
#define VITRINE_DETAIL_EACH_LOW(zero, n, tuple) + VITRINE_DETAIL_KIND_BITS(0, n, VITRINE_DETAIL_FIELD(VITRINE_DETAIL_KIND, n, tuple))
#define VITRINE_DETAIL_EACH_HIGH(zero, n, tuple) + VITRINE_DETAIL_KIND_BITS(1, n, VITRINE_DETAIL_FIELD(VITRINE_DETAIL_KIND, n, tuple))
#define VITRINE_DETAIL_EACH_NOTE(zero, n, tuple) \
  ".byte " VITRINE_DETAIL_ASM_KIND(n) "\n" \
  VITRINE_DETAIL_ASM_VALUE(".asciz", VITRINE_DETAIL_FIELD(VITRINE_DETAIL_NAME, n, tuple)) \
  VITRINE_DETAIL_ASM_VALUE(".asciz", VITRINE_DETAIL_FIELD(VITRINE_DETAIL_TYPE, n, tuple))
#define VITRINE_DETAIL_TYPED_TEXT(...) VITRINE_DETAIL_MAP(VITRINE_DETAIL_EACH_TEXT, VITRINE_DETAIL_BLANK, __VA_ARGS__)
#define VITRINE_DETAIL_TYPED_OPERANDS(...) \
  [vitrine_k0] "n"(0 VITRINE_DETAIL_MAP(VITRINE_DETAIL_EACH_LOW, VITRINE_DETAIL_NOTHING, __VA_ARGS__)), \
  [vitrine_k1] "n"(0 VITRINE_DETAIL_MAP(VITRINE_DETAIL_EACH_HIGH, VITRINE_DETAIL_NOTHING, __VA_ARGS__)) \
  VITRINE_DETAIL_MAP(VITRINE_DETAIL_EACH_OPERANDS, VITRINE_DETAIL_NOTHING, __VA_ARGS__)

/* The typed note. Same address as the v3 note before it. */
#define VITRINE_DETAIL_ASM_TYPED(provider, name, ...) \
  VITRINE_DETAIL_ASM_NOTE(".note.vitrine.probes", "vitrine", 1) \
  VITRINE_DETAIL_ASM_ADDRESS(990b) \
  VITRINE_DETAIL_ASM_VALUE(".byte", VITRINE_DETAIL_COUNT(__VA_ARGS__)) \
  VITRINE_DETAIL_ASM(.asciz provider) \
  VITRINE_DETAIL_ASM(.asciz name) \
  VITRINE_DETAIL_MAP(VITRINE_DETAIL_EACH_NOTE, VITRINE_DETAIL_NOTHING, __VA_ARGS__) \
  VITRINE_DETAIL_ASM_NOTE_END

/* provider, name: string literals; definition: asm that defines the semaphore, or nothing. */
#define VITRINE_DETAIL_TYPED_PROBE(...) \
  do { \
    VITRINE_DETAIL_PASTE(VITRINE_DETAIL_TYPED_WITH_, VITRINE_DETAIL_ANY(VITRINE_DETAIL_AFTER_FOUR(__VA_ARGS__)))(__VA_ARGS__) \
  } while (0)
#define VITRINE_DETAIL_AFTER_FOUR(provider, name, semaphore, definition, ...) __VA_ARGS__
#define VITRINE_DETAIL_TYPED_WITH_0 VITRINE_DETAIL_TYPED_STATEMENTS
#if defined __cplusplus && __cplusplus >= 201402L
#define VITRINE_DETAIL_TYPED_WITH_1(provider, name, semaphore, definition, ...) \
  ::vitrine_sdt::vitrine_call_in_order{ \
      [](VITRINE_DETAIL_MAP(VITRINE_DETAIL_EACH_TAKE, VITRINE_DETAIL_COMMA, __VA_ARGS__)) \
          __attribute__((__always_inline__, __no_instrument_function__)) { \
            VITRINE_DETAIL_TYPED_STATEMENTS(provider, name, semaphore, definition, __VA_ARGS__) \
          } VITRINE_DETAIL_MAP(VITRINE_DETAIL_EACH_PASS, VITRINE_DETAIL_NOTHING, __VA_ARGS__)};
#else
#define VITRINE_DETAIL_TYPED_WITH_1 VITRINE_DETAIL_TYPED_STATEMENTS
#endif
#define VITRINE_DETAIL_COMMA() ,
#define VITRINE_DETAIL_TYPED_STATEMENTS(provider, name, semaphore, definition, ...) \
  VITRINE_DETAIL_MAP(VITRINE_DETAIL_EACH_BIND, VITRINE_DETAIL_NOTHING, __VA_ARGS__) \
  VITRINE_DETAIL_MAP(VITRINE_DETAIL_EACH_READ, VITRINE_DETAIL_NOTHING, __VA_ARGS__) \
  VITRINE_DETAIL_ASM_STATEMENT( \
      VITRINE_DETAIL_ASM_PROBE(provider, name, \
                        semaphore, VITRINE_DETAIL_TYPED_TEXT(__VA_ARGS__)) \
      VITRINE_DETAIL_ASM_TYPED(provider, name, __VA_ARGS__) \
      VITRINE_DETAIL_ASM_BASE definition \
      :: VITRINE_DETAIL_TYPED_OPERANDS(__VA_ARGS__)); \
  VITRINE_DETAIL_MAP(VITRINE_DETAIL_EACH_READ, VITRINE_DETAIL_NOTHING, __VA_ARGS__)

/* A note of one enumerator. Its value is in two operands, as gcc has none of 64 bits that it prints as a number. */
#ifdef __cplusplus
#define VITRINE_DETAIL_ENUMERATOR_VALUE(Type, x) static_cast<long long>(Type::x)
#define VITRINE_DETAIL_ENUMERATOR_WORD(value) static_cast<int>(value)
#else
#define VITRINE_DETAIL_ENUMERATOR_VALUE(Type, x) ((long long)(x))
#define VITRINE_DETAIL_ENUMERATOR_WORD(value) ((int)(value))
#endif
#if defined __BYTE_ORDER__ && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define VITRINE_DETAIL_ENUMERATOR_WORDS ".4byte %c[vitrine_high], %c[vitrine_low]\n"
#else
#define VITRINE_DETAIL_ENUMERATOR_WORDS ".4byte %c[vitrine_low], %c[vitrine_high]\n"
#endif
#define VITRINE_DETAIL_ENUMERATOR(Type, n, x) \
  VITRINE_DETAIL_ASM_STATEMENT( \
      VITRINE_DETAIL_ASM_NOTE(".note.vitrine.probes", "vitrine", 2) \
      VITRINE_DETAIL_ENUMERATOR_WORDS \
      VITRINE_DETAIL_ASM_VALUE(".asciz", VITRINE_DETAIL_STRING(Type)) \
      VITRINE_DETAIL_ASM_VALUE(".asciz", VITRINE_DETAIL_STRING(x)) \
      VITRINE_DETAIL_ASM_NOTE_END \
      :: [vitrine_low] "i"(VITRINE_DETAIL_ENUMERATOR_WORD(VITRINE_DETAIL_ENUMERATOR_VALUE(Type, x))), \
         [vitrine_high] "i"(VITRINE_DETAIL_ENUMERATOR_WORD(VITRINE_DETAIL_ENUMERATOR_VALUE(Type, x) >> 32)));
/* clang-format on */

#endif
