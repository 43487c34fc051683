/* Code as .NET makes it: written through one mapping of a memfd, executed in another, and named in
 * /tmp/perf-PID.map. It keeps a frame pointer. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void) {
  /* push %rbp; mov %rsp, %rbp; mov $0x100000, %ecx; 1: dec %ecx; jne 1b; pop %rbp; ret */
  static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xb9, 0x00, 0x00, 0x10,
                                       0x00, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3};
  const size_t size = 4096;
  const int memory = memfd_create("doublemapper", 0);
  if (memory < 0 || ftruncate(memory, (off_t)size) != 0) return 1;
  void* written = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  void* executed = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_SHARED, memory, 0);
  if (written == MAP_FAILED || executed == MAP_FAILED) return 1;
  memcpy(written, code, sizeof code);

  char path[64];
  snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
  FILE* map = fopen(path, "w");
  if (map == NULL) return 1;
  fprintf(map, "%lx %zx int32 [made] Program::Spin()\n", (unsigned long)executed, sizeof code);
  fclose(map);
  puts("ready");
  fflush(stdout);
  for (;;) ((void (*)(void))executed)();
}
