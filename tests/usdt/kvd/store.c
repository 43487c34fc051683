#include "store.h"

#include <stdlib.h>
#include <string.h>

#include "kvd.h"
#include "said.h"

struct entry {
  struct entry* next;
  char* key;
  char* value;
};

static struct entry* table[64];

static struct entry** place(const char* key) {
  unsigned hash = 5381;
  for (const char* c = key; *c; ++c) hash = hash * 33 + (unsigned char)*c;
  struct entry** at = &table[hash % (sizeof table / sizeof *table)];
  while (*at && strcmp((*at)->key, key) != 0) at = &(*at)->next;
  return at;
}

int store_set(const char* key, const char* value) {
  struct entry** at = place(key);
  char* copy = strdup(value);
  if (!copy) return 0;
  if (!*at) {
    struct entry* made = calloc(1, sizeof *made);
    if (!made || !(made->key = strdup(key))) {
      free(copy);
      free(made);
      return 0;
    }
    *at = made;
  }
  free((*at)->value);
  (*at)->value = copy;
  SAY("kvstore:set", "\"%s\",%zu", key, strlen(value));
  KVSTORE_SET(key, strlen(value));
  return 1;
}

const char* store_get(const char* key) {
  const struct entry* found = *place(key);
  if (!found) {
    SAY("kvstore:miss", "\"%s\"", key);
    KVSTORE_MISS(key);
    return NULL;
  }
  SAY("kvstore:hit", "\"%s\",%zu", key, strlen(found->value));
  KVSTORE_HIT(key, strlen(found->value));
  return found->value;
}
