/* What forged.py makes broken files of: it has all that readers look for in a file. */
#include <stdint.h>
#include <vitrine/sdt.h>

VITRINE_SEMAPHORE(hostile_forged);
__attribute__((visibility("default"))) const uint32_t custom_labels_abi_version = 1;
__attribute__((visibility("default"))) __thread void* custom_labels_current_set;

struct node {
  struct node* next;
  union {
    uint64_t number;
    struct {
      uint32_t low, high;
    } parts;
  } value;
};

static inline __attribute__((always_inline)) void turn_once(struct node* node) {
  node->value.number ^= node->value.parts.low;
}

/* It is mapped as one piece, without its data: it uses none. */
__attribute__((noinline, visibility("hidden"))) void hostile_leaf(uint64_t count) {
  struct node node = {&node, {count}};
  for (volatile uint64_t i = 0; i < count; ++i) turn_once(node.next);
  VITRINE_SHARED_TYPED_PROBE(hostile_forged, hostile, forged, (count, count),
                             VITRINE_BYTES(bytes, &node, sizeof node));
}

__attribute__((visibility("default"))) void hostile_spin(uint64_t count) {
  hostile_leaf(count);
  hostile_leaf(count / 2);
}
