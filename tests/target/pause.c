/* Says "ready" and waits until its standard input closes. */
#include <stdio.h>
#include <unistd.h>

int main(void) {
  char byte;
  puts("ready");
  fflush(stdout);
  while (read(0, &byte, 1) > 0) {
  }
  return 0;
}
