// Labels as a writer of the format custom-labels v1 displays them.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct label_text {
  size_t length;
  const char* bytes;
};
struct label {
  struct label_text key, value;
};
struct label_set {
  const struct label* labels;
  size_t count, capacity;
};

extern const uint32_t custom_labels_abi_version;
extern __thread const struct label_set* custom_labels_current_set;
