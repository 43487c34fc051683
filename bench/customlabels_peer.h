/* What C programs use today, for comparison: the algorithm of Polar Signals' customlabels 0.4.x.
 * Written from its description (malloc for each key and value, an array of labels edited in place
 * between compiler barriers), under names of its own. */
#ifndef BENCH_CUSTOMLABELS_PEER_H
#define BENCH_CUSTOMLABELS_PEER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  size_t len;
  const unsigned char* buf;
} peer_string;
typedef struct {
  peer_string key;
  peer_string value;
} peer_label;
typedef struct peer_set peer_set;

peer_set* peer_new(size_t capacity);
peer_set* peer_clone(const peer_set* set);
void peer_free(peer_set* set);
peer_set* peer_replace(peer_set* set);
int peer_set_label(peer_set* set, peer_string key, peer_string value, peer_string* old_value);
void peer_delete(peer_set* set, peer_string key);
const peer_label* peer_get(peer_set* set, peer_string key);
int peer_run_with(peer_set* set, peer_label* labels, int n, void* (*callback)(void*), void* data,
                  void** out);

#ifdef __cplusplus
}
#endif

#endif
