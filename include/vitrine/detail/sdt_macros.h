/* SPDX-License-Identifier: Apache-2.0 */
/* Preprocessor tools of the probe macros: counting, pasting, one expansion for each argument. */
#ifndef VITRINE_DETAIL_SDT_MACROS_H
#define VITRINE_DETAIL_SDT_MACROS_H

#pragma GCC system_header

#define VITRINE_PASTE(a, b) VITRINE_PASTE_(a, b)
#define VITRINE_PASTE_(a, b) a##b
#define VITRINE_STRING(x) VITRINE_STRING_(x)
#define VITRINE_STRING_(x) #x
#define VITRINE_NOTHING()
#define VITRINE_COMMA() ,
#define VITRINE_PLUS() +

/* Lists of arguments have a first element that is not an argument (the name of the probe), because no
 * "..." may be empty in strict C99 and C++11 to 17. VITRINE_FIRST is it; VITRINE_COUNT counts those
 * after it, at most 12. */
#define VITRINE_FIRST(...) VITRINE_FIRST_(__VA_ARGS__, 0)
#define VITRINE_FIRST_(first, ...) first
#define VITRINE_COUNT(...) VITRINE_COUNT_(__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0)
#define VITRINE_COUNT_(first, a, b, c, d, e, f, g, h, i, j, k, l, count, ...) count

/* VITRINE_MAP(m, s, first, a, b, …): m(first, 1, a) s() m(first, 2, b) s() … */
#define VITRINE_MAP(m, s, ...) \
  VITRINE_PASTE(VITRINE_MAP_, VITRINE_COUNT(__VA_ARGS__))(m, s, __VA_ARGS__)
/* clang-format off */
#define VITRINE_MAP_0(m, s, z)
#define VITRINE_MAP_1(m, s, z, a) m(z, 1, a)
#define VITRINE_MAP_2(m, s, z, a, b) \
  VITRINE_MAP_1(m, s, z, a) s() m(z, 2, b)
#define VITRINE_MAP_3(m, s, z, a, b, c) \
  VITRINE_MAP_2(m, s, z, a, b) s() m(z, 3, c)
#define VITRINE_MAP_4(m, s, z, a, b, c, d) \
  VITRINE_MAP_3(m, s, z, a, b, c) s() m(z, 4, d)
#define VITRINE_MAP_5(m, s, z, a, b, c, d, e) \
  VITRINE_MAP_4(m, s, z, a, b, c, d) s() m(z, 5, e)
#define VITRINE_MAP_6(m, s, z, a, b, c, d, e, f) \
  VITRINE_MAP_5(m, s, z, a, b, c, d, e) s() m(z, 6, f)
#define VITRINE_MAP_7(m, s, z, a, b, c, d, e, f, g) \
  VITRINE_MAP_6(m, s, z, a, b, c, d, e, f) s() m(z, 7, g)
#define VITRINE_MAP_8(m, s, z, a, b, c, d, e, f, g, h) \
  VITRINE_MAP_7(m, s, z, a, b, c, d, e, f, g) s() m(z, 8, h)
#define VITRINE_MAP_9(m, s, z, a, b, c, d, e, f, g, h, i) \
  VITRINE_MAP_8(m, s, z, a, b, c, d, e, f, g, h) s() m(z, 9, i)
#define VITRINE_MAP_10(m, s, z, a, b, c, d, e, f, g, h, i, j) \
  VITRINE_MAP_9(m, s, z, a, b, c, d, e, f, g, h, i) s() m(z, 10, j)
#define VITRINE_MAP_11(m, s, z, a, b, c, d, e, f, g, h, i, j, k) \
  VITRINE_MAP_10(m, s, z, a, b, c, d, e, f, g, h, i, j) s() m(z, 11, k)
#define VITRINE_MAP_12(m, s, z, a, b, c, d, e, f, g, h, i, j, k, l) \
  VITRINE_MAP_11(m, s, z, a, b, c, d, e, f, g, h, i, j, k) s() m(z, 12, l)
/* clang-format on */

#endif
