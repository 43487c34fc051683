// A program with the probes of shop.d, as `vitrine usdt` makes them, for each protocol of is-enabled
// questions. It does what it is told on standard input, and answers with the same word:
//   fire N     fires shop:sold and, if that is asked for, shop:checked; prints what it passed first
//   rate N     asks N times whether shop:checked is asked for
//   state      tells whether shop:checked is asked for
// At start it tells "ready"; with an argument it sells that first.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shop.h"

#ifdef WITH_LABELS
#include <customlabels.h>

static custom_labels_string_t text(const char* bytes) {
  return (custom_labels_string_t){strlen(bytes), (const unsigned char*)bytes};
}

static void put_label(void) {
  custom_labels_labelset_t* set = custom_labels_new(1);
  custom_labels_replace(set);
  custom_labels_set(set, text("tenant"), text("acme"), NULL);
}
#else
static void put_label(void) {}
#endif

__attribute__((noinline)) static void sell(int id, char* item, long price) {
  // Behind the call, of 5 bytes, that the object step replaces: what the tests compare sites with.
  SHOP_PLAIN();
  __asm__ __volatile__(".globl behind_plain\nbehind_plain:");
  SHOP_SOLD(id, item, price, (unsigned char)(id + 200), (short)-id, id * 5ULL, id * 3, item + 1,
            -price);
  SHOP_MAPPED(id, item, price);
}

__attribute__((noinline)) static int wanted(void) {
  return SHOP_CHECKED_ENABLED();
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  put_label();
  puts("ready");
  char line[256], item[64];
  if (argc == 2) sell(atoi(argv[1]), argv[0], 0);  // before anybody can have attached by pid
  while (fgets(line, sizeof line, stdin)) {
    if (!strncmp(line, "fire ", 5)) {
      const int count = atoi(line + 5);
      for (int i = 0; i < count; ++i) {
        snprintf(item, sizeof item, "item %d", i);
        sell(i, item, 1000000000000L + i);
        if (wanted()) SHOP_CHECKED(i);
      }
      puts("fire");
    } else if (!strncmp(line, "state", 5)) {
      printf("state %d\n", wanted());
    } else if (!strncmp(line, "rate ", 5)) {
      for (int i = atoi(line + 5); i > 0; --i) (void)wanted();
      puts("rate");
    }
  }
  return 0;
}
