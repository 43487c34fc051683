/* Each argument is computed once, and a null pointer remains one: what the probe reads proves nothing about
 * it. C and C++. */
#include <stddef.h>
#include <vitrine/sdt.h>

static int calls;
static __attribute__((noinline)) const char* text(void) {
  ++calls;
  return "abc";
}
static __attribute__((noinline)) int number(void) {
  ++calls;
  return 3;
}
static void function(void) {}
static __attribute__((noinline)) int are_null(const char* text_or_null, const int* number_or_null) {
  VITRINE_TYPED_PROBE(values, nulls, (text, text_or_null), (number, number_or_null),
                      (part, text_or_null, 0));
  return text_or_null == NULL && number_or_null == NULL;
}

int main(void) {
  VITRINE_TYPED_PROBE(values, once, (text, text()), (part, text(), number()), (number, number()),
                      (half, number() * 0.5), (function, function), (address, &function));
  VITRINE_TYPED_PROBE(values, once, VITRINE_BYTES(bytes, text(), number()),
                      VITRINE_ENUM(kind, number(), int));
  volatile char array[4] = "xyz";
  const volatile char* pointer = array;
  VITRINE_TYPED_PROBE(values, once, (array, array, 3), (pointer));
  if (calls != 8) return 1;
  return are_null(NULL, NULL) ? 0 : 2;
}
