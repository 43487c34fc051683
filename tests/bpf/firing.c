// A program with probes, which fires them when told to on standard input:
//   fire N     fires the first site N times
//   other N    the second
//   fork N     a child does, and how it ended is told
//   state      tells the first byte of both sites, and the semaphore
// Each command is answered with a line. At start it tells its sites: "site OFFSET", "other OFFSET",
// "semaphore OFFSET", then "ready".
#define _GNU_SOURCE
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// The second is as our header has it: a one-byte nop, and one of ten bytes.
__asm__(
    ".pushsection .text\n"
    ".globl fire_site, site, fire_other, other\n"
    ".type fire_site, @function\n"
    "fire_site:\n"
    "site: nop\n"
    "ret\n"
    ".type fire_other, @function\n"
    "fire_other:\n"
    "other: nop\n"
    ".byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n"
    "ret\n"
    ".popsection\n");
extern const unsigned char site[], other[];
void fire_site(uint64_t number);
void fire_other(uint64_t number);

__attribute__((section(".probes"))) volatile unsigned short semaphore = 0;

static uint64_t found;

static int find(struct dl_phdr_info* module, size_t size, void* context) {
  (void)size;
  const uintptr_t address = (uintptr_t)context;
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)* segment = &module->dlpi_phdr[i];
    const uintptr_t begin = module->dlpi_addr + segment->p_vaddr;
    if (segment->p_type == PT_LOAD && address >= begin && address < begin + segment->p_filesz)
      found = address - begin + segment->p_offset;
  }
  return 1;  // the first is the executable
}

static void tell(const char* name, const volatile void* address) {
  found = 0;
  dl_iterate_phdr(find, (void*)(uintptr_t)address);
  printf("%s %llu\n", name, (unsigned long long)found);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  tell("site", site);
  tell("other", other);
  tell("semaphore", &semaphore);
  puts("ready");
  char command[16];
  unsigned long long count;
  char line[64];
  while (fgets(line, sizeof line, stdin)) {
    if (!strncmp(line, "state", 5)) {
      printf("%02x %02x %u\n", *(const volatile unsigned char*)site,
             *(const volatile unsigned char*)other, semaphore);
      continue;
    }
    if (sscanf(line, "%15s %llu", command, &count) != 2) return 1;
    void (*fire)(uint64_t) = strcmp(command, "other") ? fire_site : fire_other;
    if (!strcmp(command, "fork")) {
      const pid_t child = fork();
      if (child == 0) {
        for (uint64_t i = 0; i < count; ++i) fire_site(i), fire_other(i);
        _exit(0);
      }
      int status = -1;
      waitpid(child, &status, 0);
      printf("child %d\n", status);
      continue;
    }
    for (uint64_t i = 0; i < count; ++i) fire(i);
    puts("done");
  }
  return 0;
}
