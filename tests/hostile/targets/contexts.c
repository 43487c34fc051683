/* Process contexts that lie, change, or have no end. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "trick.h"

struct context* map_context(void) {
  const int file = memfd_create("OTEL_CTX", MFD_CLOEXEC);
  must(file >= 0 && ftruncate(file, page) == 0, "memfd");
  struct context* context = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  must(context != MAP_FAILED, "mmap");
  close(file);
  return context;
}

void fill_context(struct context* context, const void* payload, size_t size) {
  memcpy(context->signature, "OTEL_CTX", 8);
  context->version = 2;
  context->size = (uint32_t)size;
  context->payload = (uintptr_t)payload;
  context->stamp = 1;
}

static unsigned char* put_number(unsigned char* into, uint64_t number) {
  for (; number >= 128; number >>= 7) *into++ = (unsigned char)(number | 128);
  *into++ = (unsigned char)number;
  return into;
}

unsigned char* put_bytes(unsigned char* into, unsigned tag, const void* bytes, size_t size) {
  into = put_number(into, tag << 3 | 2);
  into = put_number(into, size);
  if (bytes != NULL) memmove(into, bytes, size);
  return into + size;
}

/* KeyValue {key, AnyValue}: the attribute of a resource, in `into`. */
static unsigned char* put_attribute(unsigned char* into, const char* key, const void* value,
                                    size_t size) {
  unsigned char* inner = malloc(size + 200);
  must(inner != NULL, "malloc");
  unsigned char* end = put_bytes(inner, 1, key, strlen(key));
  end = put_bytes(end, 2, value, size);
  into = put_bytes(into, 1, inner, (size_t)(end - inner));
  free(inner);
  return into;
}

static void publish_resource(const unsigned char* attributes, size_t size) {
  unsigned char* payload = malloc(size + 16);
  must(payload != NULL, "malloc");
  const unsigned char* end = put_bytes(payload, 1, attributes, size);
  fill_context(map_context(), payload, (size_t)(end - payload));
}

static const unsigned char good_value[] = {0x0a, 4, 'g', 'o', 'o', 'd'};

static size_t good_attribute(unsigned char* into) {
  return (size_t)(put_attribute(into, "service.name", good_value, sizeof good_value) - into);
}

static void flip_size(void* argument) {
  struct context* context = argument;
  for (uint64_t turn = 1;; ++turn) {
    context->size = turn & 1 ? 24 : UINT32_MAX;
    context->stamp = turn & 3;
    context->payload ^= turn & 1 ? 0x900000000000 : 0;
  }
}

static void flipping(void) {
  unsigned char attribute[200];
  const size_t size = good_attribute(attribute);
  unsigned char* payload = malloc(size + 16);
  must(payload != NULL, "malloc");
  put_bytes(payload, 1, attribute, size);
  struct context* context = map_context();
  fill_context(context, payload, size + 2);
  in_thread(flip_size, context);
}

/* Lists in lists in lists, 100,000 deep: as deep as fits into what readers take. */
static void deep(void) {
  enum { depth = 100000, room = 1 << 20 };
  unsigned char* value = malloc(room);
  must(value != NULL, "malloc");
  unsigned char* begin = value + room;
  for (int i = 0; i < depth; ++i) {
    unsigned char head[12];
    const unsigned char* end = put_number(head, i & 1 ? 5 << 3 | 2 : 1 << 3 | 2);
    end = put_number((unsigned char*)end, (uint64_t)(value + room - begin));
    if (begin - value < 2000 + (end - head)) break;
    begin -= end - head;
    memcpy(begin, head, (size_t)(end - head));
  }
  unsigned char* attributes = malloc(room + 200);
  must(attributes != NULL, "malloc");
  const unsigned char* end =
      put_attribute(attributes, "deep", begin, (size_t)(value + room - begin));
  publish_resource(attributes, (size_t)(end - attributes));
}

static void large(void) {
  enum { count = 120000 };
  unsigned char* attributes = malloc(count * 40);
  must(attributes != NULL, "malloc");
  unsigned char* end = attributes;
  for (int i = 0; i < count; ++i)
    end = put_attribute(end, "service.name", good_value, sizeof good_value);
  publish_resource(attributes, (size_t)(end - attributes));
  unsigned char* most = malloc(1 << 20);
  must(most != NULL, "malloc");
  publish_resource(attributes, 1000000); /* ends in the middle of an attribute */
}

/* Keys for the records of the threads: 100,000 of them, and a record that uses one there is not. */
static void key_map(void) {
  enum { count = 100000 };
  unsigned char* keys = malloc(count * 10);
  unsigned char* end = keys;
  must(keys != NULL, "malloc");
  static const unsigned char key[] = {0x0a, 3, 'k', 0x1b, '['};
  for (int i = 0; i < count; ++i) end = put_bytes(end, 1, key, sizeof key);
  unsigned char* list = malloc(count * 10);
  must(list != NULL, "malloc");
  const unsigned char* list_end = put_bytes(list, 5, keys, (size_t)(end - keys));
  unsigned char* attributes = malloc(count * 11);
  must(attributes != NULL, "malloc");
  static const unsigned char version[] = {0x0a, 6, 't', 'l', 's', '_', 'v', '1'};
  end = put_attribute(attributes, "threadlocal.schema_version", version, sizeof version);
  end = put_attribute(end, "threadlocal.attribute_key_map", list, (size_t)(list_end - list));
  publish_resource(attributes, (size_t)(end - attributes));
  static unsigned char record[64] = {1};
  record[24] = 1;
  record[26] = 6;
  memcpy(record + 28, "\377\001a\376\001b", 6);
  otel_thread_ctx_v1 = record;
}

static void many(void) {
  unsigned char attribute[200];
  const size_t size = good_attribute(attribute);
  for (int i = 0; i < 1000; ++i) publish_resource(attribute, size);
}

static void itself(void) {
  struct context* context = map_context();
  fill_context(context, context, 1 << 20);
}

static void payload_never_comes(void) {
  fill_context(map_context(), pages_that_never_come(4), 4 * page);
}

/* An anonymous mapping may be called as the context, too: its header never comes. */
static void header_never_comes(void) {
  char* header = pages_that_never_come(1);
  if (prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, header, page, "OTEL_CTX") != 0)
    cannot("anonymous mappings have no names");
}

static void map_without_end(void* argument) {
  unsigned char attribute[200];
  const size_t size = good_attribute(attribute);
  (void)argument;
  unsigned char payload[256];
  put_bytes(payload, 1, attribute, size);
  for (;;) {
    struct context* context = map_context();
    fill_context(context, payload, size + 2);
    rest_us(50);
    munmap(context, page);
  }
}

static void comes_and_goes(void) {
  in_thread(map_without_end, NULL);
}

const struct trick context_tricks[] = {{"context-size-flips", flipping},
                                       {"context-deep", deep},
                                       {"context-large", large},
                                       {"context-key-map", key_map},
                                       {"context-many", many},
                                       {"context-is-its-payload", itself},
                                       {"context-payload-never-comes", payload_never_comes},
                                       {"context-header-never-comes", header_never_comes},
                                       {"context-comes-and-goes", comes_and_goes},
                                       {NULL, NULL}};
