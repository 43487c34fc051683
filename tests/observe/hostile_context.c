/* Process contexts that break rules, in a real process (docs/formats/process-context.md,
 * "What a reader must check"). The argument names the case. Prints "ready" and ends with its
 * standard input. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { page = 4096 };

struct header {
  char signature[8];
  uint32_t version, size;
  volatile uint64_t stamp;
  uint64_t payload;
};

static void* must(void* memory) {
  if (memory == NULL || memory == MAP_FAILED) exit(1);
  return memory;
}

/* Resource {service.name: "<letter> 200 times"}. */
static unsigned char* payload_of(char letter, uint32_t* size) {
  static const unsigned char start[] = {0x0a, 0xdf, 0x01, 0x0a, 0xdc, 0x01, 0x0a, 0x0c};
  static const unsigned char middle[] = {0x12, 0xcb, 0x01, 0x0a, 0xc8, 0x01};
  unsigned char* bytes = must(malloc(sizeof start + 12 + sizeof middle + 200));
  unsigned char* at = bytes;
  at = (unsigned char*)memcpy(at, start, sizeof start) + sizeof start;
  at = (unsigned char*)memcpy(at, "service.name", 12) + 12;
  at = (unsigned char*)memcpy(at, middle, sizeof middle) + sizeof middle;
  memset(at, letter, 200);
  at += 200;
  *size = (uint32_t)(at - bytes);
  return bytes;
}

static struct header* map_header(const char* name) {
  int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, page) != 0) exit(1);
  struct header* header = must(mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
  close(fd);
  memcpy(header->signature, "OTEL_CTX", 8);
  header->version = 2;
  return header;
}

static struct header* publish(char letter, uint64_t stamp) {
  struct header* header = map_header("OTEL_CTX");
  uint32_t size;
  header->payload = (uintptr_t)payload_of(letter, &size);
  header->size = size;
  header->stamp = stamp;
  return header;
}

/* Updates as the protocol says, without end, between two payloads that are overwritten when freed.
 */
static void* update_without_end(void* argument) {
  struct header* header = argument;
  uint32_t size;
  unsigned char* buffers[2] = {payload_of('a', &size), payload_of('b', &size)};
  for (uint64_t stamp = 2;; ++stamp) {
    const int which = stamp & 1;
    header->stamp = 0;
    __sync_synchronize();
    memset(buffers[!which] + 40, '!', 150); /* the old payload's memory has a new owner */
    unsigned char* good = payload_of(which ? 'b' : 'a', &size);
    memcpy(buffers[which], good, size);
    free(good);
    header->payload = (uintptr_t)buffers[which];
    __sync_synchronize();
    header->stamp = stamp;
    usleep(30);
  }
  return NULL;
}

static void* stamp_without_end(void* argument) {
  struct header* header = argument;
  for (;;) ++header->stamp;
  return NULL;
}

static void in_background(void* (*run)(void*), void* argument) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, argument) != 0) exit(1);
}

/* Neighbours of different permissions are not merged: each page is a mapping of its own. */
static void many_mappings(size_t count) {
  char* memory = must(mmap(NULL, count * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (size_t i = 0; i < count; i += 2)
    if (mprotect(memory + i * page, page, PROT_READ | PROT_WRITE) != 0) exit(1);
}

static void map_file(const char* path) {
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, page) != 0) exit(1);
  must(mmap(NULL, page, PROT_READ, MAP_PRIVATE, fd, 0));
  close(fd);
}

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "";
  if (!strcmp(name, "good")) {
    publish('a', 1);
  } else if (!strcmp(name, "4-gib")) {
    publish('a', 1)->size = UINT32_MAX;
  } else if (!strcmp(name, "prot-none")) {
    publish('a', 1)->payload =
        (uintptr_t)must(mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  } else if (!strcmp(name, "frozen")) {
    publish('a', 0);
  } else if (!strcmp(name, "restless")) {
    in_background(stamp_without_end, publish('a', 1));
  } else if (!strcmp(name, "updating")) {
    in_background(update_without_end, publish('a', 1));
  } else if (!strcmp(name, "two")) {
    publish('a', 7);
    publish('b', 9);
  } else if (!strcmp(name, "backup")) {
    memset(map_header("OTEL_CTX_BACKUP"), 'x', page);
    publish('a', 1);
  } else if (!strcmp(name, "many")) {
    many_mappings(50000);
    publish('a', 1);
  } else if (!strcmp(name, "newline")) {
    map_file(argv[2]);
    publish('a', 1);
  } else {
    return 2;
  }
  if (write(1, "ready\n", 6) != 6) return 1;
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  return 0;
}
