/* Fires probes with fields that have no address of their own or no alignment: of packed structures, and
 * bit-fields. Says for each what it fired with. C and C++; with COMPAT by the macros of <sys/sdt.h>. */
#include <stdbool.h>
#include <stdio.h>
#ifdef COMPAT
#include <vitrine/compat/sys/sdt.h>
#define UNTYPED(name, ...) STAP_PROBE5(values, name, __VA_ARGS__)
#else
#include <vitrine/sdt.h>
#define UNTYPED(name, ...) VITRINE_PROBE(values, name, __VA_ARGS__)
#endif

typedef struct __attribute__((packed)) {
  char byte;
  int word;
  double twice;
  long long wide;
  const char* text;
  int small : 5;
  unsigned three : 3;
  unsigned long long forty : 40;
  bool yes : 1;
  long long minus : 37;
} packed;

#define SAY(name, ...) printf("{\"probe\":\"values:" name "\",\"args\":[" __VA_ARGS__)

static __attribute__((noinline)) void fields(packed* p, const packed* q, volatile packed* v) {
  SAY("packed", "%d,%d,%.17g,%lld,%d]}\n", p->byte, p->word, p->twice, q->wide, v->word);
  UNTYPED(packed, p->byte, p->word, p->twice, q->wide, v->word);
  SAY("bits", "%d,%d,%llu,%d,%lld]}\n", p->small, p->three, (unsigned long long)p->forty, q->yes,
      (long long)v->minus);
  UNTYPED(bits, p->small, p->three, p->forty, q->yes, v->minus);
#ifndef COMPAT
  SAY("typed_packed", "%d,%d,%.17g,%lld,\"%s\"]}\n", p->byte, p->word, p->twice, q->wide, p->text);
  VITRINE_TYPED_PROBE(values, typed_packed, (p->byte), (p->word), (p->twice), (q->wide), (p->text));
  SAY("typed_bits", "%d,%d,%llu,%s,%lld,%lld]}\n", p->small, p->three, (unsigned long long)p->forty,
      q->yes ? "true" : "false", (long long)p->minus, (long long)v->minus);
  VITRINE_TYPED_PROBE(values, typed_bits, (p->small), (p->three), (p->forty), (q->yes), (p->minus),
                      (volatile_, +v->minus)); /* no reference binds to a volatile one (g++) */
#endif
}

/* usage: fields FILE: says there what it fires with */
int main(int argc, char** argv) {
  if (argc != 2 || freopen(argv[1], "w", stdout) == NULL) return 2;
  packed one = {'x', -70000,          2.5,  -5000000000LL, "kettle", -3,
                5,   0x8000000001ULL, true, -0x800000001LL};
  packed two = {'y', 70000, -1e300,          5000000000LL, "cup",
                15,  7,     0xffffffffffULL, false,        0xfffffffffLL};
  fields(&one, &two, &one);
  fields(&two, &one, &two);
  return 0;
}
