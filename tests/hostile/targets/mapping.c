/* Processes that map code all the time: the kernel reports each mapping to whoever profiles. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trick.h"

static void spin_always(void* unused) {
  (void)unused;
  for (volatile unsigned long n = 0;; ++n) {
  }
}

/* Each at an address that none had before: what was mapped earlier may still be there, as the kernel
 * does not report that it is gone. */
static void ever_elsewhere(void) {
  char* const from = (char*)0x100000000000;
  in_thread(spin_always, NULL);
  ready();
  for (size_t n = 0;; ++n) {
    char* const at = from + n * 2 * page;
    if (mmap(at, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
             0) == at)
      munmap(at, page);
    count();
  }
}

/* A file whose path is as long as a path can be, made in steps of one directory each. */
static int open_far_below(const char* name) {
  char directory[201];
  const char* place = getenv("HOSTILE_DIRECTORY");
  must(place != NULL, "HOSTILE_DIRECTORY");
  must(chdir(place) == 0, place);
  memset(directory, 'd', sizeof directory - 1);
  directory[sizeof directory - 1] = '\0';
  for (size_t length = strlen(place) + 300; length < page - sizeof directory;
       length += sizeof directory) {
    mkdir(directory, 0700);
    must(chdir(directory) == 0, "chdir");
  }
  const int file = open(name, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0700);
  must(file >= 0 && chdir("/") == 0, name);
  return file;
}

/* Thousands of mappings of one file with a long path, one of which is replaced after the other. */
static void long_paths_change(void) {
  enum { mappings = 8000 };
  char name[60];
  snprintf(name, sizeof name, "%d", getpid());
  const int file = open_far_below(name);
  must(ftruncate(file, 4 * page) == 0, "ftruncate");
  char* const from = pages(2 * mappings, PROT_NONE);
  const int flags = MAP_PRIVATE | MAP_FIXED;
  for (size_t n = 0; n < mappings; ++n)
    if (mmap(from + 2 * n * page, page, PROT_READ | PROT_EXEC, flags, file, n % 4 * page) ==
        MAP_FAILED)
      break;
  in_thread(spin_always, NULL);
  ready();
  for (size_t n = 0;; ++n) {
    mmap(from + n % mappings * 2 * page, page, PROT_READ | PROT_EXEC, flags, file,
         (n + n / mappings) % 4 * page);
    count();
    if (n % 16 == 0) rest_us(100);
  }
}

const struct trick mapping_tricks[] = {{"code-mapped-ever-elsewhere", ever_elsewhere},
                                       {"code-of-long-paths-changes", long_paths_change},
                                       {NULL, NULL}};
