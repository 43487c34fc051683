/* Fires probes with arguments of all types, and prints what each argument was. Compiled by the tests
 * as C and as C++, with each compiler, level and SDT_HEADER. */
#include SDT_HEADER
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void show_i(int64_t value) {
  printf(" %lld", (long long)value);
}
static void show_u(uint64_t value) {
  printf(" %llu", (unsigned long long)value);
}
static void show_f(double value) {
  printf(" %a", value);
}
static void show_bytes(const void* at, size_t size) {
  const unsigned char* bytes = (const unsigned char*)at;
  printf(" ");
  for (size_t i = 0; i < size && i < 64; ++i) printf("%02x", bytes[i]);
}
static void show_number(const void* at, size_t size) {
  uint64_t number = 0; /* whatever is not wider than a word is one to a tracer */
  memcpy(&number, at, size);
  show_u(number);
}
#define show_n(value) show_number(&(value), sizeof(value))
#define show_p(value) show_u((uint64_t)(uintptr_t)(value))
#define show_b(value) show_bytes(&(value), sizeof(value))

#define FIRE1(name, k, a)            \
  do {                               \
    STAP_PROBE1(arguments, name, a); \
    printf(#name);                   \
    show_##k(a);                     \
    printf("\n");                    \
  } while (0)
#define FIRE3(name, k, a, l, b, m, c)      \
  do {                                     \
    STAP_PROBE3(arguments, name, a, b, c); \
    printf(#name);                         \
    show_##k(a);                           \
    show_##l(b);                           \
    show_##m(c);                           \
    printf("\n");                          \
  } while (0)

struct three {
  unsigned char r, g, b;
};
struct sixteen {
  long a, b;
};
struct forty {
  int a[10];
};
struct hundred {
  char text[100];
};
struct thing {
  signed char c;
  unsigned short s;
  int array[4];
  double real;
  long double precise;
  const char* text;
  struct three colour;
};
enum colour { RED = 1, BLUE = 7 };

int global_int = -99;
unsigned short global_array[4] = {1, 2, 40000, 4};
double global_double = 2.5;
static long static_long = -123456789012;
static float static_floats[3] = {0.5f, -1.25f, 1e20f};
__thread int thread_int = 55;
static __thread long thread_long = -66;
volatile int opaque = 3;

__attribute__((noinline)) static void scalars(signed char a, unsigned char b, short c,
                                              unsigned short d, int e, unsigned f) {
  FIRE3(chars, i, a, u, b, i, c);
  FIRE3(words, u, d, i, e, u, f);
}
__attribute__((noinline)) static void longs(long a, unsigned long b, long long c,
                                            unsigned long long d, const char* e, char f) {
  FIRE3(longs, i, a, u, b, i, c);
  FIRE3(pointers, u, d, p, e, i, f);
}
__attribute__((noinline)) static void reals(float a, double b, long double c) {
  FIRE3(reals, f, a, f, b, f, c);
  FIRE1(real, f, a);
}
__attribute__((noinline)) static void memory(struct thing* one, const int* array, long i) {
  FIRE3(fields, i, one->c, u, one->s, f, one->real);
  FIRE3(indexed, i, array[i], i, one->array[i & 3], u, global_array[i & 3]);
  FIRE3(precise, f, one->precise, p, one->text, p, &one->array[i & 3]);
}
__attribute__((noinline)) static void globals(int i) {
  FIRE3(globals, i, global_int, f, global_double, i, static_long);
  FIRE3(elements, f, static_floats[i & 1], u, global_array[2], p, &global_int);
  FIRE3(threads, i, thread_int, i, thread_long, p, &thread_int);
  FIRE3(functions, p, &globals, p, &static_long, i, opaque);
}
__attribute__((noinline)) static void constants(void) {
  FIRE3(integers, i, 5, i, -7, i, 1234567890123L);
  FIRE3(extremes, i, INT64_MIN, u, UINT64_MAX, i, INT32_MIN);
  FIRE3(numbers, f, 1.5, f, 2.25f, u, 250u);
}
__attribute__((noinline)) static void structures(struct thing* one, struct sixteen two, int n) {
  struct forty four;
  struct hundred more;
  memset(&four, n, sizeof four);
  memset(&more, n + 1, sizeof more);
  FIRE3(structures, n, one->colour, b, two, b, four);
  FIRE1(hundred, b, more);
}
static inline int inlined(int n) {
  FIRE3(inlined, i, n, i, n * 3, i, n - opaque);
  return n + 1;
}
__attribute__((noinline)) static void twelve(long a, long b, long c, long d, long e, long f, long g,
                                             long h, long i, long j, long k, long l) {
  STAP_PROBE12(arguments, twelve, a, b, c, d, e, f, g, h, i, j, k, l);
  printf("twelve %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld\n", a, b, c, d, e, f, g, h, i, j,
         k, l);
}

int main(int argc, char** argv) {
  (void)argv;
  struct thing one = {-5, 60000, {1, -2, 3, -4}, 3.14159, 2.718281828L, "text", {9, 8, 7}};
  const int array[4] = {10, -20, 30, -40};
  enum colour colour = argc == 1 ? BLUE : RED;
  struct sixteen two = {argc * -3L, 1L << 40};
  scalars((signed char)(-100 - argc), 200, -30000, 60000, -argc, 4000000000u);
  longs(-5L * argc, 1UL << 63, -1LL << 62, UINT64_MAX, "chars", 'x');
  reals(1.25f * (float)argc, -2.5, 3.0000000001L);
  for (long i = 0; i < 4; ++i) memory(&one, array, i);
  globals(argc);
  constants();
  structures(&one, two, argc);
  twelve(1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, argc);
  int n = argc;
  for (int i = 0; i < 5; ++i) n = inlined(n);
  FIRE1(enumeration, i, (int)colour);
  FIRE1(expression, i, (long)n * n + opaque);
  return 0;
}
