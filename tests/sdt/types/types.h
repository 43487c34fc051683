/* Every kind of argument, for C and C++; argument_types.py knows what the notes must say. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vitrine/sdt.h>

enum plain { ONE = 1, TWO };
enum negative { MINUS = -1, PLUS = 1 };
typedef enum negative signed_enum;
VITRINE_ENUMERATORS(signed_enum, MINUS, PLUS);

struct thing {
  int id;
  double price;
  const char* name;
  unsigned char bytes[4];
};

#define HERE(label) __asm__ __volatile__(".globl " #label "\n" #label ":")

static inline void numbers(signed char a, unsigned char b, short c, unsigned short d, int e,
                           unsigned f, intptr_t g, uintptr_t h, float i, double j) {
  VITRINE_PROBE(types, numbers_1, a, b, c, d);
  VITRINE_PROBE(types, numbers_2, e, f, i, j);
  VITRINE_PROBE(types, numbers_3, g, h);
  VITRINE_TYPED_PROBE(types, typed_numbers_1, (a), (b), (c), (d));
  VITRINE_TYPED_PROBE(types, typed_numbers_2, (e), (f), (i), (j));
}

static inline void others(bool yes, void* pointer, struct thing* thing, enum plain plain,
                          enum negative negative, const char* text, int length, wchar_t wide) {
  char array[8] = "array";
  VITRINE_PROBE(types, addresses, pointer, array, "literal", &thing->price);
  VITRINE_PROBE(types, others, yes, plain, negative, wide);
  VITRINE_TYPED_PROBE(types, typed_addresses, (pointer), (array), (literal, "literal"),
                      (price, &thing->price), (thing->name));
  VITRINE_TYPED_PROBE(types, typed_others, (yes), VITRINE_ENUM(negative, negative, signed_enum));
  VITRINE_TYPED_PROBE(types, texts, (text, text, length),
                      VITRINE_BYTES(bytes, thing->bytes, sizeof thing->bytes));
  VITRINE_TYPED_PROBE(types, members, (thing->id), (price, thing->price));
}

static inline void counts(int n) {
  HERE(types_here_0);
  VITRINE_PROBE(types, none);
  HERE(types_here_1);
  VITRINE_TYPED_PROBE(types, typed_none);
  HERE(types_here_2);
  VITRINE_PROBE(types, constants, -5, 7U, 'c', 1 == 1);
  VITRINE_TYPED_PROBE(types, typed_constant, (five, 5));
#ifndef __i386__ /* which has not that many registers */
  VITRINE_PROBE(types, twelve, n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7, n + 8, n + 9,
                n + 10, n + 11);
  VITRINE_TYPED_PROBE(types, typed_nine, (a, n + 1), (b, n + 2), (c, n + 3), (d, n + 4), (e, n + 5),
                      (f, n + 6), (g, n + 7), (h, n + 8), (i, n + 9));
#else
  VITRINE_PROBE(types, twelve, n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
  VITRINE_TYPED_PROBE(types, typed_nine, (a, n), (b, 2), (c, 3), (d, 4), (e, 5), (f, 6), (g, 7),
                      (h, 8), (i, 9));
#endif
}

static int calls;
static __attribute__((noinline)) int costly(int n) {
  return ++calls + n;
}

#ifdef __cplusplus
extern "C" {
#endif
extern volatile unsigned short types_lazy_semaphore __attribute__((visibility("hidden")));
#ifdef __cplusplus
}
#endif

/* Lazy arguments are computed only when somebody looks. */
static inline int lazy(int n) {
  VITRINE_LAZY_PROBE(types, lazy, costly(n));
  if (calls != 0 || VITRINE_PROBE_ENABLED(types, lazy)) return 1;
  types_lazy_semaphore = 1; /* as the kernel does */
  VITRINE_LAZY_PROBE(types, lazy, costly(n));
  if (calls != 1 || !VITRINE_PROBE_ENABLED(types, lazy)) return 2;
  VITRINE_LAZY_TYPED_PROBE(types, lazy, (cost, costly(n)));
  if (calls != 2) return 3;
  types_lazy_semaphore = 0;
  VITRINE_LAZY_TYPED_PROBE(types, lazy, (cost, costly(n)));
  return calls == 2 ? 0 : 4;
}

static inline int all(int n) {
  struct thing thing = {n, 2.5, "kettle", {1, 2, 3, 4}};
  numbers((signed char)n, (unsigned char)n, (short)n, (unsigned short)n, n, (unsigned)n, n,
          (uintptr_t)n, (float)n, n);
  others(n == 1, &thing, &thing, ONE, MINUS, "text", n, L'w');
  counts(n);
  return lazy(n);
}
