/* A file that forged.py made, as a module of this process: mapped, in the list of the dynamic linker,
 * and run. HOSTILE_FILE: the file; HOSTILE_ENTRY, HOSTILE_DYNAMIC: where in it are the function and the
 * dynamic section. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trick.h"

static size_t number_in(const char* name) {
  const char* value = getenv(name);
  must(value != NULL, name);
  return strtoul(value, NULL, 0);
}

static void run_forged(void* function) {
  for (;;) {
    ((void (*)(uint64_t))(uintptr_t)function)(300000);
    rest_us(4000);
  }
}

static void forged(void) {
  static struct link_map module;
  const char* path = getenv("HOSTILE_FILE");
  must(path != NULL, "HOSTILE_FILE");
  const int file = open(path, O_RDWR | O_CLOEXEC);
  struct stat status;
  must(file >= 0 && fstat(file, &status) == 0, path);
  const size_t most = 64 << 20;
  const size_t size = (size_t)status.st_size < most ? (size_t)status.st_size : most;
  char* memory = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
  must(memory != MAP_FAILED, path);
  for (size_t at = 0; at < size; at += page) (void)*(volatile char*)(memory + at);
  if (getenv("HOSTILE_CUT") != NULL)
    must(ftruncate(file, (off_t)number_in("HOSTILE_CUT")) == 0, "ftruncate");
  close(file);
  module.l_addr = (uintptr_t)memory;
  module.l_name = (char*)path;
  module.l_ld = (ElfW(Dyn)*)(memory + number_in("HOSTILE_DYNAMIC"));
  struct link_map* last = _r_debug.r_map;
  while (last->l_next != NULL) last = last->l_next;
  last->l_next = &module;
  module.l_prev = last;
  in_thread(run_forged, memory + number_in("HOSTILE_ENTRY"));
}

const struct trick forged_tricks[] = {{"forged-file", forged}, {NULL, NULL}};
