/* Code that was made at run time, with a map of its symbols that is no such thing. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trick.h"

static void spin_in(void* code) {
  for (;;) {
    ((void (*)(void))(uintptr_t)code)();
    rest_us(4000);
  }
}

/* mov $300000, %ecx; 1: dec %ecx; jnz 1b; ret */
static const unsigned char spin[] = {0xb9, 0xe0, 0x93, 0x04, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};

static char* make_code(void) {
  char* code = pages(1, PROT_READ | PROT_WRITE | PROT_EXEC);
  memcpy(code, spin, sizeof spin);
  in_thread(spin_in, code);
  return code;
}

static const char* map_path(void) {
  static char path[64];
  snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
  unlink(path);
  return path;
}

static void write_to(const char* path, const char* line) {
  FILE* file = fopen(path, "w");
  must(file != NULL && fputs(line, file) >= 0 && fclose(file) == 0, path);
}

static void line_of(char* into, size_t size, const void* code, const char* name) {
  snprintf(into, size, "%lx 1000 %s\n", (unsigned long)(uintptr_t)code, name);
}

static void fifo(void) {
  make_code();
  must(mkfifo(map_path(), 0600) == 0, "mkfifo");
}

static void to_shadow(void) {
  make_code();
  must(symlink("/etc/shadow", map_path()) == 0, "symlink");
}

static void sparse(void) {
  make_code();
  const int file = open(map_path(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  must(file >= 0 && ftruncate(file, 10LL << 30) == 0, "perf map");
}

static void of_another_user(void) {
  char line[100];
  const char* path = map_path();
  line_of(line, sizeof line, make_code(), "not_to_be_shown");
  write_to(path, line);
  must(chown(path, 65534, 65534) == 0, "chown");
}

static void directory(void) {
  make_code();
  must(mkdir(map_path(), 0700) == 0, "mkdir");
}

static void to_device(void) {
  make_code();
  must(symlink("/dev/zero", map_path()) == 0, "symlink");
}

static void grow(void* path) {
  FILE* file = fopen(path, "a");
  must(file != NULL, "perf map");
  for (unsigned turn = 0;; ++turn) {
    fprintf(file, "%x %x \x1b]0;title\x07<script>%u\n", turn * 8, turn, turn);
    if (turn % 200000 == 0) must(ftruncate(fileno(file), 0) == 0, "ftruncate");
    if (turn % 100 == 0) rest_us(100);
  }
}

static void growing(void) {
  make_code();
  static char path[64];
  strcpy(path, map_path());
  write_to(path, "0 ffffffffffffffff everything\n");
  in_thread(grow, path);
}

/* One line of 100 MB; and lines that lie about the addresses. */
static void long_line(void) {
  char* code = make_code();
  const char* path = map_path();
  FILE* file = fopen(path, "w");
  must(file != NULL, path);
  fprintf(file, "%lx ffffffffffffffff all\nffffffffffffffff 10 wraps\n-1 -1 minus\n",
          (unsigned long)(uintptr_t)code);
  fprintf(file, "%lx 1000 ", (unsigned long)(uintptr_t)code);
  char block[64 * 1024];
  memset(block, 'n', sizeof block);
  for (int i = 0; i < 1600; ++i) must(fwrite(block, sizeof block, 1, file) == 1, path);
  must(fclose(file) == 0, path);
}

const struct trick code_tricks[] = {{"jit-map-fifo", fifo},
                                    {"jit-map-of-secrets", to_shadow},
                                    {"jit-map-sparse", sparse},
                                    {"jit-map-of-another-user", of_another_user},
                                    {"jit-map-directory", directory},
                                    {"jit-map-device", to_device},
                                    {"jit-map-growing", growing},
                                    {"jit-map-long-line", long_line},
                                    {NULL, NULL}};
