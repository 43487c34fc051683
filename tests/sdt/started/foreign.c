/* Guarded probes as systemtap's header and `dtrace -h` write them: .probes has no alignment of its own. */
#include <stdio.h>
#include <unistd.h>
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

__extension__ unsigned short foreign_lazy_semaphore __attribute__((section(".probes"), used));
void* data[] = {(void*)&data};
void* const relocated[] = {(void*)&data};

__attribute__((noinline)) static void fire(int i) {
  if (__builtin_expect(*(volatile unsigned short*)&foreign_lazy_semaphore, 0))
    STAP_PROBE1(foreign, lazy, i);
}

/* `ready`, then five fires a line that comes in. */
int main(int argc, char** argv) {
  char byte;
  if (argc == 1) {
    for (int i = 0; i < 5; ++i) fire(i);
    return 0;
  }
  puts("ready");
  fflush(stdout);
  while (read(0, &byte, 1) == 1) {
    for (int i = 0; i < 5; ++i) fire(i);
    puts("fired");
    fflush(stdout);
  }
  return argv == 0;
}
