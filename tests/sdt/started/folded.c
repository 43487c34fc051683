/* Two functions of equal code, which linkers may fold into one (--icf=all), with probes of two names. */
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

__extension__ unsigned short folded_one_semaphore __attribute__((section(".probes"), used));
__extension__ unsigned short folded_two_semaphore __attribute__((section(".probes"), used));

__attribute__((noinline, used)) static int one(int x) {
  STAP_PROBE1(folded, one, x);
  return x + 1;
}
__attribute__((noinline, used)) static int two(int x) {
  STAP_PROBE1(folded, two, x);
  return x + 1;
}

int main(void) {
  int sum = 0;
  for (int i = 0; i < 3; ++i) sum += one(i) + two(i);
  return sum == 0;
}
