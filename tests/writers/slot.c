/* The slots of one format, or of two. Chosen by -DSLOT_<FORMAT>; -DSLOT_ALIGN=N aligns the
 * variables. Records are written byte by byte from the tables of docs/formats/custom-labels.md and
 * docs/formats/thread-context.md. */
#include "slot.h"

#ifndef SLOT_ALIGN
#define SLOT_ALIGN 8
#endif

#define SLOT __attribute__((visibility("default"), used, aligned(SLOT_ALIGN))) __thread
#define EXPORT __attribute__((visibility("default"), used))

/* So that neither the block's size nor a slot's offset in it is a round number. */
__attribute__((used)) static __thread char before[24] = {1};

static void put(unsigned char* at, unsigned long long value, int bytes) {
  for (int i = 0; i < bytes; ++i) at[i] = (unsigned char)(value >> (8 * i));
}

static void put_bytes(unsigned char* at, const unsigned char* from, size_t size) {
  for (size_t i = 0; i < size; ++i) at[i] = from[i];
}

static size_t length(const char* text) {
  size_t n = 0;
  while (text[n] != '\0') ++n;
  return n;
}

__attribute__((unused)) static void put_pointer(unsigned char* at, const void* pointer) {
  put(at, (unsigned long long)(size_t)pointer, 8);
}

/* v0, v1: an array of {key, value}, each {u64 length, u64 address}. Fills it, strings behind it. */
__attribute__((unused)) static void put_label_array(unsigned char* at,
                                                    const struct writer_labels* labels) {
  unsigned char* text = at + 32 * labels->count;
  for (size_t i = 0; i < labels->count; ++i, at += 32) {
    const struct writer_label* label = &labels->label[i];
    const size_t key = length(label->key);
    put(at, key, 8);
    put_pointer(at + 8, text);
    put_bytes(text, (const unsigned char*)label->key, key);
    text += key;
    put(at + 16, label->size, 8);
    put_pointer(at + 24, text);
    put_bytes(text, label->value, label->size);
    text += label->size + 1;
  }
}

/* Attributes of the records: {u8 key index, u8 length, bytes}. Returns their size. */
__attribute__((unused)) static size_t put_attributes(unsigned char* at,
                                                     const struct writer_labels* labels) {
  unsigned char* start = at;
  for (size_t i = 0; i < labels->count; ++i) {
    *at++ = (unsigned char)i;
    *at++ = (unsigned char)labels->label[i].size;
    put_bytes(at, labels->label[i].value, labels->label[i].size);
    at += labels->label[i].size;
  }
  return (size_t)(at - start);
}

__attribute__((unused)) static void put_ids(unsigned char* at, const struct writer_labels* labels) {
  put_bytes(at, labels->trace_id, 16);
  put_bytes(at + 16, labels->span_id, 8);
}

/* Publishes with one store, after the block is complete. */
#define IN_FORCE(slot, block)            \
  do {                                   \
    __asm__ volatile("" ::: "memory");   \
    *(void* volatile*)&(slot) = (block); \
  } while (0)

#ifdef SLOT_V0
EXPORT unsigned int custom_labels_abi_version = 0; /* in .bss: no bytes in the file */
SLOT struct {
  void* storage;
  size_t count;
} custom_labels_thread_local_data;

static void* v0_address(void) {
  return &custom_labels_thread_local_data;
}

static void v0_publish(unsigned char* block, const struct writer_labels* labels) {
  put_label_array(block, labels);
  custom_labels_thread_local_data.count = 0;
  __asm__ volatile("" ::: "memory");
  custom_labels_thread_local_data.storage = block;
  __asm__ volatile("" ::: "memory");
  custom_labels_thread_local_data.count = labels->count;
}
#endif

#ifdef SLOT_V1
#ifndef SLOT_VERSION
#define SLOT_VERSION 1
#endif
EXPORT unsigned int custom_labels_abi_version =
    SLOT_VERSION; /* in .data: its file offset is not its address */
SLOT void* custom_labels_current_set;

static void* v1_address(void) {
  return &custom_labels_current_set;
}

static void v1_publish(unsigned char* block, const struct writer_labels* labels) {
  put_pointer(block, block + 24);
  put(block + 8, labels->count, 8);
  put(block + 16, 77, 8); /* capacity: the writer's own business */
  put_label_array(block + 24, labels);
  IN_FORCE(custom_labels_current_set, block);
}
#endif

#if defined(SLOT_DRAFT_A) || defined(SLOT_DRAFT_B)
SLOT void* custom_labels_current_set_v2;

static void* draft_address(void) {
  return &custom_labels_current_set_v2;
}

static void put_draft_record(unsigned char* block, const struct writer_labels* labels) {
  put_ids(block, labels);
  put_bytes(block + 24, (const unsigned char*)"rootspan", 8);
  block[32] = 1;
  block[33] = (unsigned char)labels->count;
  put_attributes(block + 34, labels);
}
#endif

#ifdef SLOT_DRAFT_A
EXPORT unsigned int custom_labels_abi_version_v2 = 2;
SLOT void* custom_labels_current_ref_v2;

static void draft_a_publish(unsigned char* block, const struct writer_labels* labels) {
  unsigned char* reference = block + writer_block_bytes / 2;
  unsigned char* table = reference + 24;
  unsigned char* at = table + 4;
  for (size_t i = 0; i < labels->count; ++i) {
    const size_t size = length(labels->label[i].key);
    *at++ = (unsigned char)size;
    put_bytes(at, (const unsigned char*)labels->label[i].key, size);
    at += size;
  }
  put(table, (unsigned long long)(at - table - 4), 4);
  reference[0] = 1;
  put_pointer(reference + 8, table);
  put(reference + 16, 512, 8);
  put_draft_record(block, labels);
  IN_FORCE(custom_labels_current_ref_v2, reference);
  IN_FORCE(custom_labels_current_set_v2, block);
}
#endif

#ifdef SLOT_DRAFT_B
static void draft_b_publish(unsigned char* block, const struct writer_labels* labels) {
  put_draft_record(block, labels);
  IN_FORCE(custom_labels_current_set_v2, block);
}
#endif

#if defined(SLOT_DRAFT_C) || defined(SLOT_DRAFT_D)
SLOT void* custom_labels_current_set_v2;

static void* draft_address(void) {
  return &custom_labels_current_set_v2;
}
#endif

#if defined(SLOT_DRAFT_C) || defined(SLOT_DRAFT_D) || defined(SLOT_OTEL)
static void put_record(unsigned char* block, const struct writer_labels* labels,
                       unsigned char flags) {
  put_ids(block, labels);
  block[24] = 1;
  block[25] = flags;
  put(block + 26, put_attributes(block + 28, labels), 2);
}
#endif

#if defined(SLOT_DRAFT_C) || defined(SLOT_DRAFT_D)
static void draft_publish(unsigned char* block, const struct writer_labels* labels) {
  put_record(block, labels, 0);
  IN_FORCE(custom_labels_current_set_v2, block);
}
#endif

#ifdef SLOT_OTEL
SLOT void* otel_thread_ctx_v1;

static void* otel_address(void) {
  return &otel_thread_ctx_v1;
}

static void otel_publish(unsigned char* block, const struct writer_labels* labels) {
  put_record(block, labels, labels->flags);
  IN_FORCE(otel_thread_ctx_v1, block);
}
#endif

#ifdef SLOT_ELASTIC
EXPORT const void* elastic_apm_profiling_correlation_process_storage_v1;
SLOT void* elastic_apm_profiling_correlation_tls_v1;

static void* elastic_address(void) {
  return &elastic_apm_profiling_correlation_tls_v1;
}

static void elastic_publish(unsigned char* block, const struct writer_labels* labels) {
  put(block, 1, 2);
  block[2] = 1;
  block[3] = 1;
  block[4] = labels->flags;
  put_ids(block + 5, labels);
  put_bytes(block + 29, labels->span_id, 8); /* transaction */
  IN_FORCE(elastic_apm_profiling_correlation_tls_v1, block);
}
#endif

EXPORT const struct writer_slot writer_slots[] = {
#ifdef SLOT_V0
    {"custom-labels-v0", 0, 1, v0_address, v0_publish},
#endif
#ifdef SLOT_V1
    {"custom-labels-v1", 0, 1, v1_address, v1_publish},
#endif
#ifdef SLOT_DRAFT_A
    {"custom-labels-v2-draft-a", 1, 1, draft_address, draft_a_publish},
#endif
#ifdef SLOT_DRAFT_B
    {"custom-labels-v2-draft-b", 1, 1, draft_address, draft_b_publish},
#endif
#ifdef SLOT_DRAFT_C
    {"custom-labels-v2-draft-c", 1, 1, draft_address, draft_publish},
#endif
#ifdef SLOT_DRAFT_D
    {"custom-labels-v2-draft-d", 1, 1, draft_address, draft_publish},
#endif
#ifdef SLOT_OTEL
    {"otel-thread-ctx-v1", 2, 1, otel_address, otel_publish},
#endif
#ifdef SLOT_ELASTIC
    {"elastic-v1", 2, 0, elastic_address, elastic_publish},
#endif
    {0, 0, 0, 0, 0},
};
