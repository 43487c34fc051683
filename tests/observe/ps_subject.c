// A process for `ps` to find. Written from the byte tables, linked to nothing of ours.
//   labels    exports the custom-labels v1 symbols
//   context   publishes a process context, and nothing else
//   vfork     as context, then has a child in vfork, which runs in this memory
//   fork      as labels and context, then forks a child that keeps the labels
//   nothing   publishes nothing
// Prints "ready" (vfork, fork: "child PID" first) and waits for the end of its standard input.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef WITH_LABELS
__attribute__((visibility("default"))) const uint32_t custom_labels_abi_version = 1;
__attribute__((visibility("default"))) __thread void* custom_labels_current_set;
#endif

static const char payload[] =
    "\x0a\x1c\x0a\x1a\x0a\x0cservice.name\x12\x0a\x0a\x08"
    "checkout";

static void publish_context(void) {
  int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, 4096) != 0) exit(1);
  char* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (page == MAP_FAILED || madvise(page, 4096, MADV_DONTFORK) != 0) exit(1);
  close(fd);
  uint32_t version = 2, size = sizeof payload - 1;
  uint64_t stamp = 12345, address = (uintptr_t)payload;
  memcpy(page, "OTEL_CTX", 8);
  memcpy(page + 8, &version, 4);
  memcpy(page + 12, &size, 4);
  memcpy(page + 24, &address, 8);
  memcpy(page + 16, &stamp, 8);
}

static void wait_for_end(void) {
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "nothing";
  if (strcmp(mode, "labels") != 0 && strcmp(mode, "nothing") != 0) publish_context();
  if (strcmp(mode, "vfork") == 0) {
    if (vfork() == 0) {
      dprintf(1, "child %d\nready\n", (int)getpid());
      wait_for_end();
      _exit(0);
    }
    return 0;
  }
  if (strcmp(mode, "fork") == 0) {
    pid_t child = fork();
    if (child == 0) {
      wait_for_end();
      _exit(0);
    }
    dprintf(1, "child %d\n", (int)child);
  }
  dprintf(1, "ready\n");
  wait_for_end();
  return 0;
}
