/* A publisher as readers want it; each macro breaks one rule that CheckPublishedSymbols.cmake checks. */
#include <stdint.h>

#ifndef VERSION
#define VERSION 1
#endif
#ifdef MUTABLE_VERSION
#define CONSTANT
#else
#define CONSTANT const
#endif
#ifndef VERSION_TYPE
#define VERSION_TYPE uint32_t
#endif
#ifndef SLOT_TYPE
#define SLOT_TYPE void*
#endif
#ifndef SLOT_ATTRIBUTE
#define SLOT_ATTRIBUTE
#endif

extern CONSTANT VERSION_TYPE custom_labels_abi_version;
CONSTANT VERSION_TYPE custom_labels_abi_version = VERSION;
SLOT_ATTRIBUTE _Thread_local SLOT_TYPE custom_labels_current_set;
_Thread_local void* otel_thread_ctx_v1;

void install(void* set);
void install(void* set) {
  custom_labels_current_set = (SLOT_TYPE)(uintptr_t)set;
  otel_thread_ctx_v1 = set;
}
