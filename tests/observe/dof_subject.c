// A program with the probes of shop.d, as `vitrine usdt` makes them, for each protocol of is-enabled
// questions. It does what it is told on standard input, and answers with the same word:
//   fire N     fires shop:sold and, if that is asked for, shop:checked; prints what it passed first
//   state      tells whether shop:checked is asked for
// At start it tells "ready".
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shop.h"

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

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  puts("ready");
  char line[256], item[64];
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
