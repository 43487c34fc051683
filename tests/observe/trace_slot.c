// Where labels are displayed: in the program, or in a library of its own.
#include "trace_labels.h"

const uint32_t custom_labels_abi_version = 1;
__thread const struct label_set* custom_labels_current_set;
