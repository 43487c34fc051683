/* A process that publishes labels, thread contexts and a process context, each by hand from the
 * documents, well, or with the one fault that its argument names (`spins` behind it: its threads never rest). Says "ready", does again what
 * changes in time at each line of its input, and ends with it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default"), used))

EXPORT const uint32_t custom_labels_abi_version = 1;
EXPORT __thread void* custom_labels_current_set;
#ifndef NO_RECORD_SLOT
EXPORT __thread void* otel_thread_ctx_v1;
#endif

static const char* fault = "";

static int spins; /* its threads use the processor all the time */

static int is(const char* name) {
  return strcmp(fault, name) == 0;
}

/* Custom labels. */
struct string {
  uint64_t length;
  const void* bytes;
};
struct label {
  struct string key, value;
};
static struct label labels[32];
static struct {
  const void* storage;
  uint64_t count, capacity;
} set;

static void add_label(const char* key, const char* value, size_t size) {
  labels[set.count++] = (struct label){{strlen(key), key}, {size, value}};
}

static void make_set(void) {
  static char text[2000];
  memset(text, 'x', sizeof text);
  set.storage = labels;
  add_label("tenant", "acme", 4);
  add_label("route", "/pay", 4);
  if (is("null-value")) labels[1].value.bytes = NULL;
  if (is("lost-value")) labels[1].value.bytes = (const void*)0x123456789000;
  if (is("kernel-value")) labels[1].value.bytes = (const void*)0xffffffff81000000;
  if (is("endless-value")) labels[1].value = (struct string){UINT64_MAX, text};
  if (is("cut-set")) {
    char* pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + 4096, 4096, PROT_NONE);
    set.storage = memcpy(pages + 4096 - 2 * sizeof labels[0], labels, 2 * sizeof labels[0]);
    set.count = 3;
  }
  if (is("lost-key")) labels[0].key.bytes = (const void*)0x123456789000;
  if (is("lost-set")) set.storage = (const void*)0x123456789000;
  if (is("long-value")) add_label("long", text, 60);
  if (is("long-key")) add_label("a-key-that-is-longer-than-25-bytes", "v", 1);
  if (is("repeated")) add_label("tenant", "other", 5);
  if (is("not-text")) add_label("bytes", "\xff\xfe", 2);
  if (is("cut-key")) {
    add_label("key", "v", 1);
    labels[2].key = (struct string){sizeof text, text};
  }
}

/* Thread contexts. */
static unsigned char record_bytes[1024] __attribute__((aligned(16)));

static unsigned char* make_record(void) {
  unsigned char* record = record_bytes + (is("odd-record") ? 1 : 0);
  memset(record, 0x11, 24);
  if (is("no-span")) memset(record + 16, 0, 8);
  record[24] = is("valid-2") ? 2 : 1;
  record[25] = 1;
  if (is("bare-record")) {
    memset(record, 0, 24);
    return record;
  }
  unsigned char* at = record + 28;
  *at++ = is("unknown-key") ? 9 : 0;
  *at++ = is("overrun") ? 200 : 4;
  memcpy(at, is("not-utf8") ? "ac\xff\xff" : "acme", 4);
  at += 4;
  if (is("same-name")) {
    *at++ = 1;
    *at++ = 1;
    *at++ = 'x';
  }
  if (is("large-record"))
    for (int i = 0; i < 4; ++i) {
      *at++ = 1;
      *at++ = 200;
      memset(at, 'y', 200);
      at += 200;
    }
  const uint16_t size = (uint16_t)(at - record - 28);
  memcpy(record + 26, &size, 2);
  return is("lost-record") ? (unsigned char*)0x123456789000 : record;
}

/* The process context: protobuf by hand. */
struct bytes {
  unsigned char data[200000];
  size_t size;
};

static void varint(struct bytes* to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to->data[to->size++] = (unsigned char)(value | 0x80);
  to->data[to->size++] = (unsigned char)value;
}

static void field(struct bytes* to, unsigned number, const void* data, size_t size) {
  varint(to, number << 3 | 2);
  varint(to, size);
  memcpy(to->data + to->size, data, size);
  to->size += size;
}

static struct bytes scratch[4];

static void attribute(struct bytes* to, unsigned number, const char* key,
                      const struct bytes* value) {
  struct bytes* pair = &scratch[0];
  pair->size = 0;
  field(pair, 1, key, strlen(key));
  field(pair, 2, value->data, value->size);
  field(to, number, pair->data, pair->size);
}

static void text_attribute(struct bytes* to, unsigned number, const char* key, const char* text) {
  struct bytes* value = &scratch[1];
  value->size = 0;
  field(value, 1, text, strlen(text));
  attribute(to, number, key, value);
}

static void number_attribute(struct bytes* to, unsigned number, const char* key, uint64_t what) {
  struct bytes* value = &scratch[1];
  value->size = 0;
  varint(value, 3 << 3);
  varint(value, what);
  attribute(to, number, key, value);
}

static void keys_attribute(struct bytes* to, unsigned number, const char* const* names,
                           size_t count) {
  struct bytes *list = &scratch[2], *value = &scratch[1], *one = &scratch[3];
  list->size = value->size = 0;
  for (size_t i = 0; i < count; ++i) {
    one->size = 0;
    field(one, 1, names[i], strlen(names[i]));
    field(list, 1, one->data, one->size);
  }
  field(value, 5, list->data, list->size);
  attribute(to, number, "threadlocal.attribute_key_map", value);
}

static int round_of_change;

static void make_payload(struct bytes* to) {
  static struct bytes resource;
  static char large[100000];
  resource.size = to->size = 0;
  if (!is("no-service"))
    text_attribute(&resource, 1, "service.name", is("bad-text") ? "\xff" : "shop");
  if (is("twice-key")) text_attribute(&resource, 1, "service.name", "other");
  if (is("wrong-type")) text_attribute(&resource, 1, "process.pid", "42");
  if (is("wrong-pid")) number_attribute(&resource, 1, "process.pid", 1);
  if (is("large")) {
    memset(large, 'z', sizeof large - 1);
    text_attribute(&resource, 1, "large", large);
  }
  if (round_of_change > 0) number_attribute(&resource, 1, "round", (unsigned)round_of_change);
  const char* names[] = {is("map-changes") && round_of_change % 2 == 1 ? "renamed" : "tenant",
                         is("same-name") || is("bad-map") ? "tenant" : "route"};
  const int in_resource = is("schema-in-resource");
  struct bytes* schema_to = in_resource ? &resource : to;
  static struct bytes schema;
  schema.size = 0;
  if (!is("no-schema") && !is("bare-record")) {
    text_attribute(&schema, in_resource ? 1 : 2, "threadlocal.schema_version",
                   is("final-schema") ? "tls_v1"
                   : is("odd-schema") ? "other"
                                      : "tlsdesc_v1_dev");
    keys_attribute(&schema, in_resource ? 1 : 2, names, 2);
  }
  if (in_resource) {
    memcpy(resource.data + resource.size, schema.data, schema.size);
    resource.size += schema.size;
  }
  if (is("bare")) {
    memcpy(to->data, resource.data, resource.size);
    to->size = resource.size;
    return;
  }
  field(to, 1, resource.data, resource.size);
  if (!in_resource) {
    memcpy(schema_to->data + schema_to->size, schema.data, schema.size);
    schema_to->size += schema.size;
  }
  if (is("bad-payload")) memset(to->data, 0xff, to->size);
}

struct header {
  char signature[8];
  uint32_t version, size;
  uint64_t stamp, payload;
};

static uint64_t now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static struct header* header;
static struct bytes payloads[2];

static void publish(void) {
  struct bytes* payload = &payloads[round_of_change % 2];
  make_payload(payload);
  const uint64_t before = header->stamp;
  *(volatile uint64_t*)&header->stamp = 0;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  header->size = (uint32_t)payload->size;
  header->payload = is("lost-payload") ? 0x123456789000 : (uint64_t)(size_t)payload->data;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (is("frozen")) return;
  uint64_t stamp = now(is("realtime") ? CLOCK_REALTIME : CLOCK_BOOTTIME);
  if (is("same-stamp") && before != 0) stamp = before;
  *(volatile uint64_t*)&header->stamp = stamp;
}

static struct header* make_header(void) {
  const int memory =
      (int)syscall(SYS_memfd_create, is("other-name") ? "OTEL_CTXX" : "OTEL_CTX", 1U);
  if (memory < 0 || ftruncate(memory, 4096) != 0) return NULL;
  struct header* made = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, memory, 0);
  close(memory);
  if (!is("forked") && !is("inherited")) madvise(made, 4096, MADV_DONTFORK);
  memcpy(made->signature, is("no-signature") ? "OTEL_CTY" : "OTEL_CTX", 8);
  made->version = is("version-3") ? 3 : 2;
  return made;
}

static int ids[2]; /* of threads that have published */

static void* work(void* arg) {
  static int count;
  custom_labels_current_set = &set;
#ifndef NO_RECORD_SLOT
  otel_thread_ctx_v1 = arg;
#else
  (void)arg;
#endif
  const int mine = __atomic_fetch_add(&count, 1, __ATOMIC_SEQ_CST);
  __atomic_store_n(&ids[mine], (int)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
  while (spins) __asm__ volatile("");
  for (;;) pause();
  return NULL;
}

/* Whether a thread has published, and is in its pause(), if it comes to that. */
static int rests(const int* id) {
  char path[64], state = 0;
  if (spins) return __atomic_load_n(id, __ATOMIC_SEQ_CST) != 0;
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", __atomic_load_n(id, __ATOMIC_SEQ_CST));
  FILE* stat = fopen(path, "r");
  if (stat == NULL) return 0;
  if (fscanf(stat, "%*d (%*[^)]) %c", &state) != 1) state = 0;
  fclose(stat);
  return state == 'S';
}

int main(int argc, char** argv) {
  if (argc > 1) fault = argv[1];
  spins = argc > 2 && strcmp(argv[2], "spins") == 0;
  make_set();
  void* record = make_record();
  if (!is("no-context")) {
    header = make_header();
    if (header == NULL) return 1;
    publish();
  }
  if (is("two-contexts")) {
    struct header* other = make_header();
    *other = *header;
  }
  if (is("inherited")) {
    /* A tick of the kernel's, at the least, between the context and the child. */
    const struct timespec while_ = {0, 100000000};
    nanosleep(&while_, NULL);
    const pid_t child = fork();
    if (child != 0) {
      char line[64];
      printf("%d\n", (int)child);
      fflush(stdout);
      while (fgets(line, sizeof line, stdin) != NULL) continue;
      return 0;
    }
    prctl(PR_SET_PDEATHSIG, 9);
    for (;;) pause();
  }
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i)
    if (pthread_create(&threads[i], NULL, work, record) != 0) return 1;
  while (!rests(&ids[0]) || !rests(&ids[1])) usleep(1000);
  printf("ready\n");
  fflush(stdout);
  char line[64];
  while (fgets(line, sizeof line, stdin) != NULL) {
    ++round_of_change;
    publish();
    printf("changed\n");
    fflush(stdout);
  }
  return 0;
}
