/* Fires probes with enumerators of every underlying type. Says for each what it fired with. C and C++. */
#include <stdint.h>
#include <stdio.h>
#include <vitrine/sdt.h>
/* Each has its list in the same line, and the same enumerators. */
#include "enumerators_one.h"
#include "enumerators_two.h"

#ifdef __cplusplus
#define ENUM(name, type, ...) enum class name : type { __VA_ARGS__ }
#define OF(Type, name) Type::name
#else
#define ENUM(name, type, ...) typedef enum __attribute__((__packed__)) { __VA_ARGS__ } name
#define OF(Type, name) name
#endif

/* clang-format off */
ENUM(of_u8, uint8_t, u8_none, u8_most = 255);
ENUM(of_i8, int8_t, i8_least = -128, i8_most = 127);
ENUM(of_u16, uint16_t, u16_none, u16_most = 65535);
ENUM(of_i16, int16_t, i16_least = -32768, i16_most = 32767);
ENUM(of_u32, uint32_t, u32_none, u32_high = 0x80000000U, u32_most = 0xffffffffU);
ENUM(of_i32, int32_t, i32_least = -2147483647 - 1, i32_most = 2147483647);
ENUM(of_u64, uint64_t, u64_none, u64_high = 0x80000000ULL, u64_most = UINT64_MAX);
ENUM(of_i64, long long, i64_least = -0x7fffffffffffffffLL - 1, i64_low = -2147483649LL, i64_minus = -1,
                          i64_wide = 0x123456789abcdefLL, i64_most = 0x7fffffffffffffffLL);
/* clang-format on */
VITRINE_ENUMERATORS(of_u8, u8_none, u8_most);
VITRINE_ENUMERATORS(of_i8, i8_least, i8_most);
VITRINE_ENUMERATORS(of_u16, u16_none, u16_most);
VITRINE_ENUMERATORS(of_i16, i16_least, i16_most);
VITRINE_ENUMERATORS(of_u32, u32_none, u32_high, u32_most);
VITRINE_ENUMERATORS(of_i32, i32_least, i32_most);
VITRINE_ENUMERATORS(of_u64, u64_none, u64_high, u64_most);
VITRINE_ENUMERATORS(of_i64, i64_least, i64_low, i64_minus, i64_wide, i64_most);

#define SAY(name, ...) printf("{\"probe\":\"values:" name "\",\"args\":[" __VA_ARGS__)
#define FIRE(Type, name)                                                          \
  do {                                                                            \
    volatile Type hidden = OF(Type, name);                                        \
    Type value = hidden;                                                          \
    SAY("constant", "\"" #name "\"]}\n");                                         \
    VITRINE_TYPED_PROBE(values, constant, VITRINE_ENUM(e, OF(Type, name), Type)); \
    SAY("variable", "\"" #name "\"]}\n");                                         \
    VITRINE_TYPED_PROBE(values, variable, VITRINE_ENUM(e, value, Type));          \
  } while (0)

/* usage: enumerators FILE: says there what it fires with */
int main(int argc, char** argv) {
  if (argc != 2 || freopen(argv[1], "w", stdout) == NULL) return 2;
  FIRE(of_u8, u8_none);
  FIRE(of_u8, u8_most);
  FIRE(of_i8, i8_least);
  FIRE(of_i8, i8_most);
  FIRE(of_u16, u16_most);
  FIRE(of_i16, i16_least);
  FIRE(of_i16, i16_most);
  FIRE(of_u32, u32_none);
  FIRE(of_u32, u32_high);
  FIRE(of_u32, u32_most);
  FIRE(of_i32, i32_least);
  FIRE(of_i32, i32_most);
  FIRE(of_u64, u64_none);
  FIRE(of_u64, u64_high);
  FIRE(of_u64, u64_most);
  FIRE(of_i64, i64_least);
  FIRE(of_i64, i64_low);
  FIRE(of_i64, i64_minus);
  FIRE(of_i64, i64_wide);
  FIRE(of_i64, i64_most);
  /* Not in the list. */
  const of_i64 unlisted = (of_i64)-7;
  SAY("unlisted", "-7]}\n");
  VITRINE_TYPED_PROBE(values, unlisted, VITRINE_ENUM(e, unlisted, of_i64));
  const of_u64 large = (of_u64)0x8000000000000001ULL;
  SAY("large", "9223372036854775809]}\n");
  VITRINE_TYPED_PROBE(values, large, VITRINE_ENUM(e, large, of_u64));
  SAY("headers", "\"first\",\"second\"]}\n");
  VITRINE_TYPED_PROBE(values, headers, VITRINE_ENUM(one, OF(one_t, first), one_t),
                      VITRINE_ENUM(two, OF(two_t, second), two_t));
  return 0;
}
