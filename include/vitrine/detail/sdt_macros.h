/* SPDX-License-Identifier: Apache-2.0 */
/* Preprocessor tools of the probe macros: counting, pasting, one expansion for each argument.
 *
 * A program may define any word as a macro, before these headers or after them, except keywords and
 * names of the standard library. So the replacement lists of all macros consist of keywords, reserved
 * words, VITRINE_… and vitrine_…; every other word is in a string literal, or is stringized or pasted
 * where it is passed. tests/sdt/user_macros.py defines every word that the headers have. */
#ifndef VITRINE_DETAIL_SDT_MACROS_H
#define VITRINE_DETAIL_SDT_MACROS_H

#pragma GCC system_header

#define VITRINE_DETAIL_PASTE(a, b) VITRINE_DETAIL_PASTE_(a, b)
#define VITRINE_DETAIL_PASTE_(a, b) a##b
#define VITRINE_DETAIL_STRING(x) VITRINE_DETAIL_STRING_(x)
#define VITRINE_DETAIL_STRING_(x) #x
#define VITRINE_DETAIL_NOTHING()

/* Lists of arguments have a first element that is not an argument (0, or the
 * type of enumerators), because no
 * "..." may be empty in strict C99 and C++11 to 17. VITRINE_DETAIL_FIRST is it; VITRINE_DETAIL_COUNT counts those
 * after it, at most 12. */
#define VITRINE_DETAIL_FIRST(...) VITRINE_DETAIL_FIRST_(__VA_ARGS__, 0)
#define VITRINE_DETAIL_FIRST_(first, ...) first
#define VITRINE_DETAIL_COUNT(...) \
  VITRINE_DETAIL_COUNT_(__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0)
/* 1 if there is one, else 0. */
#define VITRINE_DETAIL_ANY(...) \
  VITRINE_DETAIL_COUNT_(__VA_ARGS__, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0)
#define VITRINE_DETAIL_COUNT_(first, a, b, c, d, e, f, g, h, i, j, k, l, count, ...) count

/* VITRINE_DETAIL_MAP(m, s, first, a, b, …): m(first, 1, a) s() m(first, 2, b) s() … */
#define VITRINE_DETAIL_MAP(m, s, ...) \
  VITRINE_DETAIL_PASTE(VITRINE_DETAIL_MAP_, VITRINE_DETAIL_COUNT(__VA_ARGS__))(m, s, __VA_ARGS__)
/* clang-format off */
#define VITRINE_DETAIL_MAP_0(m, s, z)
#define VITRINE_DETAIL_MAP_1(m, s, z, a) m(z, 1, a)
#define VITRINE_DETAIL_MAP_2(m, s, z, a, b) \
  VITRINE_DETAIL_MAP_1(m, s, z, a) s() m(z, 2, b)
#define VITRINE_DETAIL_MAP_3(m, s, z, a, b, c) \
  VITRINE_DETAIL_MAP_2(m, s, z, a, b) s() m(z, 3, c)
#define VITRINE_DETAIL_MAP_4(m, s, z, a, b, c, d) \
  VITRINE_DETAIL_MAP_3(m, s, z, a, b, c) s() m(z, 4, d)
#define VITRINE_DETAIL_MAP_5(m, s, z, a, b, c, d, e) \
  VITRINE_DETAIL_MAP_4(m, s, z, a, b, c, d) s() m(z, 5, e)
#define VITRINE_DETAIL_MAP_6(m, s, z, a, b, c, d, e, f) \
  VITRINE_DETAIL_MAP_5(m, s, z, a, b, c, d, e) s() m(z, 6, f)
#define VITRINE_DETAIL_MAP_7(m, s, z, a, b, c, d, e, f, g) \
  VITRINE_DETAIL_MAP_6(m, s, z, a, b, c, d, e, f) s() m(z, 7, g)
#define VITRINE_DETAIL_MAP_8(m, s, z, a, b, c, d, e, f, g, h) \
  VITRINE_DETAIL_MAP_7(m, s, z, a, b, c, d, e, f, g) s() m(z, 8, h)
#define VITRINE_DETAIL_MAP_9(m, s, z, a, b, c, d, e, f, g, h, i) \
  VITRINE_DETAIL_MAP_8(m, s, z, a, b, c, d, e, f, g, h) s() m(z, 9, i)
#define VITRINE_DETAIL_MAP_10(m, s, z, a, b, c, d, e, f, g, h, i, j) \
  VITRINE_DETAIL_MAP_9(m, s, z, a, b, c, d, e, f, g, h, i) s() m(z, 10, j)
#define VITRINE_DETAIL_MAP_11(m, s, z, a, b, c, d, e, f, g, h, i, j, k) \
  VITRINE_DETAIL_MAP_10(m, s, z, a, b, c, d, e, f, g, h, i, j) s() m(z, 11, k)
#define VITRINE_DETAIL_MAP_12(m, s, z, a, b, c, d, e, f, g, h, i, j, k, l) \
  VITRINE_DETAIL_MAP_11(m, s, z, a, b, c, d, e, f, g, h, i, j, k) s() m(z, 12, l)
/* clang-format on */

#endif
