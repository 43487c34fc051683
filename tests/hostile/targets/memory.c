/* Memory of every unpleasant kind. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "trick.h"

struct start {
  void (*run)(void*);
  void* argument;
};

static void* begin(void* start) {
  const struct start what = *(struct start*)start;
  free(start);
  what.run(what.argument);
  return NULL;
}

void in_thread(void (*run)(void*), void* argument) {
  struct start* start = malloc(sizeof *start);
  pthread_t thread;
  pthread_attr_t small;
  must(start != NULL, "malloc");
  *start = (struct start){run, argument};
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 * 1024);
  must(pthread_create(&thread, &small, begin, start) == 0, "pthread_create");
  pthread_detach(thread);
}

/* The kernel's own clock: targets without a vdso sleep, too. */
void rest_us(long microseconds) {
  const struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
  syscall(SYS_nanosleep, &time, NULL);
}

char* pages(size_t count, int protection) {
  char* memory = mmap(NULL, count * page, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  must(memory != MAP_FAILED, "mmap");
  return memory;
}

char* edge(size_t count) {
  char* start = pages(count + 1, PROT_READ | PROT_WRITE);
  munmap(start + count * page, page);
  return start + count * page;
}

void* at_edge(const void* bytes, size_t size) {
  return memcpy(edge(size / page + 1) - size, bytes, size);
}

char* pages_on_demand(size_t count, int* descriptor) {
  *descriptor = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  if (*descriptor < 0) cannot("no userfaultfd");
  struct uffdio_api api = {.api = UFFD_API};
  must(ioctl(*descriptor, UFFDIO_API, &api) == 0, "UFFDIO_API");
  char* memory = pages(count, PROT_READ | PROT_WRITE);
  struct uffdio_register range = {.range = {(uintptr_t)memory, count * page},
                                  .mode = UFFDIO_REGISTER_MODE_MISSING};
  must(ioctl(*descriptor, UFFDIO_REGISTER, &range) == 0, "UFFDIO_REGISTER");
  return memory;
}

char* pages_that_never_come(size_t count) {
  int descriptor;
  return pages_on_demand(count, &descriptor);
}

void* device_page(void) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512];
  unsigned long start = 0;
  while (maps && fgets(line, sizeof line, maps))
    if (strstr(line, "[vvar]")) start = strtoul(line, NULL, 16);
  if (maps) fclose(maps);
  return (void*)start;
}
