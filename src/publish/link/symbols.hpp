// The symbols that observers look for (docs/formats/custom-labels.md, "Symbols"). All are names for
// parts of this thread's `vitrine_labels_thread.slot`, so that one 16-byte store changes them
// together.
#pragma once

#include <cstdint>

extern "C" {
extern const std::uint32_t custom_labels_abi_version;
#if VITRINE_PUBLISH_STATIC  // which has them by way of vitrine_labels_thread
#elif VITRINE_PUBLISH_ABI == 0
extern __thread char custom_labels_thread_local_data[16];
#else
extern __thread void* custom_labels_current_set;
#if VITRINE_PUBLISH_OTEL
extern __thread void* otel_thread_ctx_v1;
#endif
#endif
}
