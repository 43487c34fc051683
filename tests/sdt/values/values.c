/* Fires probes with arguments of every type, from every place that a compiler keeps values in, and
 * says for each what it fired with. C and C++. */
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <vitrine/sdt.h>
#ifdef __cplusplus
#include <string>
#include <vector>
#endif

typedef enum { LOW = -2, HIGH = 7 } level;
VITRINE_ENUMERATORS(level, LOW, HIGH);
typedef struct {
  int8_t byte;
  uint16_t half;
  int32_t word;
  uint64_t wide;
  float single;
  double twice;
  const char* text;
  bool yes;
} record;

#define SAY(name, ...) printf("{\"probe\":\"values:" name "\",\"args\":[" __VA_ARGS__)
#define U64(x) ((unsigned long long)(uintptr_t)(x))

int32_t global_word = -99;
static uint64_t static_wide = UINT64_C(0xfedcba9876543210);
static int16_t table[8] = {10, -20, 30, -40, 50, -60, 70, -80};
__thread int32_t local_to_thread = 55;
const char* global_text = "global";
volatile int zero = 0;

/* In registers, and on the stack for want of them. */
static __attribute__((noinline)) void parameters(int8_t a, uint8_t b, int16_t c, uint16_t d,
                                                 int32_t e, uint32_t f, int64_t g, uint64_t h) {
  SAY("parameters", "%d,%d,%d,%d,%d,%" PRIu32 ",%" PRId64 ",%" PRIu64 "]}\n", a, b, c, d, e, f, g,
      h);
  VITRINE_PROBE(values, parameters, a, b, c, d, e, f, g, h);
  SAY("typed_parameters", "%d,%d,%d,%d,%d,%" PRIu32 ",%" PRId64 "]}\n", a, b, c, d, e, f, g);
  VITRINE_TYPED_PROBE(values, typed_parameters, (a), (b), (c), (d), (e), (f), (g));
}

static __attribute__((noinline)) void floats(float a, double b) {
  SAY("floats", "%.17g,%.17g]}\n", (double)a, b);
  VITRINE_PROBE(values, floats, a, b);
  SAY("typed_floats", "%.17g,%.17g,%.17g]}\n", (double)a, b, b * 2);
  VITRINE_TYPED_PROBE(values, typed_floats, (a), (b), (twice, b * 2));
}

static __attribute__((noinline)) void members(const record* r, const record* many, int index) {
  SAY("members", "%d,%d,%d,%" PRIu64 ",%.17g,%.17g,%d]}\n", r->byte, r->half, r->word, r->wide,
      (double)r->single, r->twice, r->yes);
  VITRINE_PROBE(values, members, r->byte, r->half, r->word, r->wide, r->single, r->twice, r->yes);
  SAY("typed_members", "%d,\"%s\",%s,%.17g]}\n", r->byte, r->text, r->yes ? "true" : "false",
      r->twice);
  VITRINE_TYPED_PROBE(values, typed_members, (r->byte), (r->text), (r->yes), (r->twice));
  SAY("indexed", "%d,%d,%d,\"%s\"]}\n", many[index].word, table[index], table[index + 1],
      many[index].text);
  VITRINE_TYPED_PROBE(values, indexed, (word, many[index].word), (here, table[index]),
                      (next, table[index + 1]), (text, many[index].text));
}

static __attribute__((noinline)) void globals(void) {
  SAY("globals", "%d,%" PRIu64 ",%d,%d]}\n", global_word, static_wide, table[3], local_to_thread);
  VITRINE_PROBE(values, globals, global_word, static_wide, table[3], local_to_thread);
  SAY("typed_globals", "%d,\"%s\",%d]}\n", global_word, global_text, local_to_thread);
  VITRINE_TYPED_PROBE(values, typed_globals, (global_word), (global_text), (local_to_thread));
}

static __attribute__((noinline)) void constants(void) {
  SAY("constants", "%d,%u,%lld,%llu,%d,\"0x0\",true]}\n", -5, 7U, LLONG_MIN, ULLONG_MAX, 'c');
  VITRINE_TYPED_PROBE(values, constants, (minus, -5), (seven, 7U), (least, LLONG_MIN),
                      (most, ULLONG_MAX), (letter, 'c'), (null, (void*)0), (yes, (bool)1));
}

static __attribute__((noinline)) void texts(const char* text, int length,
                                            const unsigned char* bytes, level l) {
  char array[32];
  snprintf(array, sizeof array, "array %d", length);
  SAY("texts", "\"%s\",\"%s\",\"literal\",\"%.*s\",\"\",{\"base64\":\"AAH+/w==\"},\"%s\"]}\n", text,
      array, length, text, l == LOW ? "LOW" : "HIGH");
  VITRINE_TYPED_PROBE(values, texts, (text), (array), (literal, "literal"), (part, text, length),
                      (empty, ""), VITRINE_BYTES(bytes, bytes, 4), VITRINE_ENUM(level, l, level));
  SAY("pointers", "\"0x%llx\",\"0x%llx\"]}\n", U64(bytes), U64(&global_word));
  VITRINE_TYPED_PROBE(values, pointers, (bytes), (word, &global_word));
}

/* Local memory that nothing but a probe reads, and that the function changes between probes. */
static __attribute__((noinline)) void fill_the_stack(void) {
  volatile char all[1024];
  for (size_t i = 0; i < sizeof all; ++i) all[i] = '#';
  (void)all[zero];
}
static __attribute__((noinline)) void local_texts(int number) {
  char digits[12];
  int n = 0;
  for (int left = number; left != 0; left /= 10) digits[n++] = (char)('0' + left % 10);
  digits[n++] = 'n';
  VITRINE_TYPED_PROBE(values, local_part, (digits, digits, n));
  VITRINE_TYPED_PROBE(values, local_bytes, VITRINE_BYTES(digits, digits, n));
  digits[0] = 'x';
  VITRINE_TYPED_PROBE(values, local_part, (digits, digits, n));
}
static __attribute__((noinline)) void local_strings(int number) {
  struct {
    char kind;
    char name[7];
  } one = {'o', {'a', (char)('0' + number), 0}};
  VITRINE_TYPED_PROBE(values, local_member, (name, one.name));
  one.name[0] = 'b';
  const char* name = one.name;
  VITRINE_TYPED_PROBE(values, local_member, (name));
  one.name[0] = 0;
  VITRINE_TYPED_PROBE(values, local_member, (name, &one.name[0]));
}
#ifdef __cplusplus
static __attribute__((noinline)) void local_objects(int number) {
  std::string text("kettle");
  text += static_cast<char>('0' + number);
  VITRINE_TYPED_PROBE(values, local_object, (text));
  text[0] = 'n';
  VITRINE_TYPED_PROBE(values, local_object, (text));
  std::vector<unsigned char> bytes(4);
  bytes[1] = 1;
  bytes[2] = static_cast<unsigned char>(247 + number);
  bytes[3] = 255;
  VITRINE_TYPED_PROBE(values, local_object, (bytes));
}
#endif
static __attribute__((noinline)) void locals(int number) {
  SAY("local_part", "\"%dn\"]}\n", 7124);
  SAY("local_bytes", "{\"base64\":\"NzEyNG4=\"}]}\n");
  SAY("local_part", "\"x124n\"]}\n");
  fill_the_stack();
  local_texts(4210 + number);
  SAY("local_member", "\"a%d\"]}\n", number);
  SAY("local_member", "\"b%d\"]}\n", number);
  SAY("local_member", "\"\"]}\n");
  fill_the_stack();
  local_strings(number);
#ifdef __cplusplus
  SAY("local_object", "\"kettle%d\"]}\n", number);
  SAY("local_object", "\"nettle%d\"]}\n", number);
  SAY("local_object", "{\"base64\":\"AAH+/w==\"}]}\n");
  fill_the_stack();
  local_objects(number);
#endif
}

static inline void in_a_loop(int n) {
  for (int i = 0; i < n; ++i) {
    SAY("loop", "%d,%d]}\n", i, i * i - n);
    VITRINE_TYPED_PROBE(values, loop, (i), (other, i * i - n));
  }
}

#ifdef __cplusplus
static __attribute__((noinline)) void containers(const std::string& small,
                                                 const std::vector<unsigned char>& bytes) {
  SAY("containers",
      "\"%s\",\"%s, and more than fits a small string\",{\"base64\":\"AAH+/w==\"}]}\n",
      small.c_str(), small.c_str());
  VITRINE_LAZY_TYPED_PROBE(values, containers, (small),
                           (large, small + ", and more than fits a small string"), (bytes));
}
#endif

/* usage: values FILE: says there what it fires with */
int main(int argc, char** argv) {
  if (argc != 2 || freopen(argv[1], "w", stdout) == NULL) return 2;
  static const unsigned char bytes[] = {0, 1, 254, 255};
  record many[8];
  for (int i = 0; i < 8; ++i) {
    const record r = {
        (int8_t)(-i - 1), (uint16_t)(65535 - i), -2147483647 + i,        UINT64_MAX - (uint64_t)i,
        0.5f * (float)i,  -1e300 / (i + 1),      i % 2 ? "odd" : "even", i % 2 == 1};
    many[i] = r;
  }
  parameters((int8_t)(-128 + zero), (uint8_t)(255 + zero), (int16_t)(-32768 + zero),
             (uint16_t)(65535 + zero), INT_MIN + zero, UINT_MAX + (uint32_t)zero, INT64_MIN + zero,
             UINT64_MAX + (uint64_t)zero);
  parameters(1, 2, 3, 4, 5, 6, 7, 8);
  floats(-FLT_MAX, DBL_MIN);
  floats(1.5f, 3.141592653589793);
  members(&many[3], many, 2 + zero);
  members(&many[6], many, 5 + zero);
  globals();
  constants();
  texts("a longer text", 8 + zero, bytes, LOW);
  texts("short", 3 + zero, bytes, HIGH);
  in_a_loop(3 + zero);
  locals(7 + zero);
#ifdef __cplusplus
  containers("kettle", std::vector<unsigned char>(bytes, bytes + 4));
#endif
  return 0;
}
