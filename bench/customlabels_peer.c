#include "customlabels_peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct peer_set {
  peer_label* storage;
  size_t count;
  size_t capacity;
};

/* As the library has it: found by observers, so the compiler must store to it each time. */
__attribute__((visibility("default"))) extern __thread peer_set* volatile peer_current_set;
__thread peer_set* volatile peer_current_set;

#define BARRIER __asm__ volatile("" ::: "memory")

peer_set* peer_new(size_t capacity) {
  peer_set* set = malloc(sizeof *set);
  if (set == NULL) return NULL;
  set->storage = calloc(capacity == 0 ? 1 : capacity, sizeof(peer_label));
  set->count = 0;
  set->capacity = capacity;
  if (set->storage == NULL) {
    free(set);
    return NULL;
  }
  return set;
}

static void free_label(peer_label* label) {
  free((void*)label->key.buf);
  free((void*)label->value.buf);
}

void peer_free(peer_set* set) {
  if (set == NULL) return;
  for (size_t i = 0; i < set->count; ++i) free_label(&set->storage[i]);
  free(set->storage);
  free(set);
}

peer_set* peer_replace(peer_set* set) {
  peer_set* old = peer_current_set;
  BARRIER;
  peer_current_set = set;
  BARRIER;
  return old;
}

static int same(peer_string a, peer_string b) {
  return a.len == b.len && memcmp(a.buf, b.buf, a.len) == 0;
}

static peer_label* find(peer_set* set, peer_string key) {
  for (size_t i = 0; i < set->count; ++i) {
    if (set->storage[i].key.buf != NULL && same(set->storage[i].key, key)) return &set->storage[i];
  }
  return NULL;
}

const peer_label* peer_get(peer_set* set, peer_string key) {
  if (set == NULL) return NULL;
  return find(set, key);
}

static int copy(peer_string from, peer_string* to) {
  unsigned char* buf = malloc(from.len);
  if (buf == NULL) return errno;
  memcpy(buf, from.buf, from.len);
  *to = (peer_string){from.len, buf};
  return 0;
}

static int push(peer_set* set, peer_label label) {
  if (set->count == set->capacity) {
    const size_t capacity = set->capacity == 0 ? 1 : 2 * set->capacity;
    peer_label* storage = malloc(capacity * sizeof *storage);
    if (storage == NULL) return errno;
    memcpy(storage, set->storage, set->count * sizeof *storage);
    peer_label* old = set->storage;
    BARRIER;
    set->storage = storage;
    BARRIER;
    set->capacity = capacity;
    free(old);
  }
  peer_label* end = &set->storage[set->count];
  end->value = label.value;
  end->key.len = label.key.len;
  end->key.buf = NULL;
  BARRIER;
  ++set->count;
  BARRIER;
  end->key.buf = label.key.buf;
  BARRIER;
  return 0;
}

int peer_set_label(peer_set* set, peer_string key, peer_string value, peer_string* old_value) {
  peer_label label = {{0, NULL}, {0, NULL}};
  int error = copy(key, &label.key);
  if (error != 0) return error;
  error = copy(value, &label.value);
  if (error != 0) {
    free((void*)label.key.buf);
    return error;
  }
  peer_label* old = find(set, key);
  if (old == NULL) {
    if (old_value != NULL) *old_value = (peer_string){0, NULL};
    return push(set, label);
  }
  const peer_label before = *old;
  BARRIER;
  old->key.buf = NULL;
  BARRIER;
  old->value = label.value;
  old->key.len = label.key.len;
  BARRIER;
  old->key.buf = label.key.buf;
  BARRIER;
  free((void*)before.key.buf);
  if (old_value != NULL)
    *old_value = before.value;
  else
    free((void*)before.value.buf);
  return 0;
}

void peer_delete(peer_set* set, peer_string key) {
  peer_label* old = find(set, key);
  if (old == NULL) return;
  const peer_label before = *old;
  BARRIER;
  old->key.buf = NULL;
  BARRIER;
  peer_label* last = &set->storage[set->count - 1];
  if (old != last) {
    old->value = last->value;
    old->key.len = last->key.len;
    BARRIER;
    old->key.buf = last->key.buf;
    BARRIER;
  }
  --set->count;
  BARRIER;
  free((void*)before.key.buf);
  free((void*)before.value.buf);
}

peer_set* peer_clone(const peer_set* set) {
  peer_set* clone = peer_new(set->count);
  if (clone == NULL) return NULL;
  for (size_t i = 0; i < set->count; ++i) {
    peer_label label;
    if (copy(set->storage[i].key, &label.key) != 0 ||
        copy(set->storage[i].value, &label.value) != 0)
      abort();
    clone->storage[clone->count++] = label;
  }
  return clone;
}

int peer_run_with(peer_set* set, peer_label* labels, int n, void* (*callback)(void*), void* data,
                  void** out) {
  peer_string* old = malloc((size_t)n * sizeof *old);
  if (old == NULL) return errno;
  for (int i = 0; i < n; ++i) {
    const int error = peer_set_label(set, labels[i].key, labels[i].value, &old[i]);
    if (error != 0) return error;
  }
  void* result = callback(data);
  if (out != NULL) *out = result;
  for (int i = 0; i < n; ++i) {
    if (old[i].buf != NULL) {
      peer_set_label(set, labels[i].key, old[i], NULL);
      free((void*)old[i].buf);
    } else {
      peer_delete(set, labels[i].key);
    }
  }
  free(old);
  return 0;
}
