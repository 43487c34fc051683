/* SPDX-License-Identifier: Apache-2.0 */
/* What an argument is, in C: without _Generic, which C99 lacks. Same macros as sdt_types.hpp. */
#ifndef VITRINE_DETAIL_SDT_TYPES_H
#define VITRINE_DETAIL_SDT_TYPES_H

#pragma GCC system_header

/* Classes of <typeclass.h> of gcc, which clang has, too. */
#define VITRINE_DETAIL_CLASS(x) __builtin_classify_type(x)
#define VITRINE_DETAIL_IS_INTEGER(x) (VITRINE_DETAIL_CLASS(x) >= 1 && VITRINE_DETAIL_CLASS(x) <= 4)
#define VITRINE_DETAIL_IS_FLOATING(x) (VITRINE_DETAIL_CLASS(x) == 8)
/* Arrays and functions are passed as their address. */
#define VITRINE_DETAIL_IS_ADDRESS(x) \
  (VITRINE_DETAIL_CLASS(x) == 5 || VITRINE_DETAIL_CLASS(x) == 10 || VITRINE_DETAIL_CLASS(x) == 14)
/* The same without functions. */
#define VITRINE_DETAIL_IS_POINTER(x) (VITRINE_DETAIL_CLASS(x) == 5 || VITRINE_DETAIL_CLASS(x) == 14)

#define VITRINE_DETAIL_DECAYED(x) __typeof__(((void)0, (x)))
#define VITRINE_DETAIL_HAS_SIGN(x)                                                              \
  (VITRINE_DETAIL_IS_INTEGER(x) &&                                                              \
   (VITRINE_DETAIL_DECAYED(__builtin_choose_expr(VITRINE_DETAIL_IS_INTEGER(x), (x), 0U))) - 1 < \
       (VITRINE_DETAIL_DECAYED(__builtin_choose_expr(VITRINE_DETAIL_IS_INTEGER(x), (x), 0U)))1)

/* Bytes that are passed; negative for an integer with a sign. */
#define VITRINE_DETAIL_SIGNED_SIZE(x)                                   \
  (VITRINE_DETAIL_HAS_SIGN(x) ? -(int)sizeof(VITRINE_DETAIL_DECAYED(x)) \
                              : (int)sizeof(VITRINE_DETAIL_DECAYED(x)))
/* clang takes no bit-field where memory is among the constraints, but its value; of a _Bool of one bit
 * clang 19 passes that bit and what is beside it, so that is made a byte. */
#ifdef __clang__
#define VITRINE_DETAIL_VALUE(x)                                                    \
  __builtin_choose_expr(                                                           \
      __builtin_types_compatible_p(VITRINE_DETAIL_DECAYED(x), _Bool),              \
      (unsigned char)__builtin_choose_expr(                                        \
          __builtin_types_compatible_p(VITRINE_DETAIL_DECAYED(x), _Bool), (x), 0), \
      ((void)0, (x)))
#else
#define VITRINE_DETAIL_VALUE(x) (x)
#endif

/* The address that is passed for x; null, without evaluating x, if none is. */
#define VITRINE_DETAIL_ADDRESS(x) \
  ((const volatile void*)__builtin_choose_expr(VITRINE_DETAIL_IS_POINTER(x), (x), (void*)0))
/* Argument n, of which VITRINE_DETAIL_ADDRESS was evaluated. */
#define VITRINE_DETAIL_ADDRESSED(n, x)                                \
  [vitrine_s##n] "n"(VITRINE_DETAIL_SIGNED_SIZE(x)),                  \
      [vitrine_a##n] VITRINE_DETAIL_CONSTRAINT(__builtin_choose_expr( \
          VITRINE_DETAIL_IS_POINTER(x), vitrine_data_##n, VITRINE_DETAIL_VALUE(x)))

#define VITRINE_DETAIL_IS_TYPE(x, type) \
  __builtin_types_compatible_p(VITRINE_DETAIL_DECAYED(x), type)
#define VITRINE_DETAIL_IS_C_STRING(x) \
  (VITRINE_DETAIL_IS_TYPE(x, char*) || VITRINE_DETAIL_IS_TYPE(x, const char*))

/* enum vitrine_note_kind of the typed note. C takes an enumeration for an integer. */
#define VITRINE_DETAIL_KIND(x)          \
  (VITRINE_DETAIL_IS_TYPE(x, _Bool) ? 3 \
   : VITRINE_DETAIL_IS_FLOATING(x)  ? 2 \
   : VITRINE_DETAIL_IS_C_STRING(x)  ? 5 \
   : VITRINE_DETAIL_IS_ADDRESS(x)   ? 4 \
   : VITRINE_DETAIL_IS_INTEGER(x)   ? 1 \
                                    : 0)

#endif
