// What ThreadSanitizer cannot see: an instruction of our own that publishes memory.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define VITRINE_DETAIL_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VITRINE_DETAIL_THREAD_SANITIZER 1
#endif
#endif

#if VITRINE_DETAIL_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace vitrine::publish {

/// What was stored before is there for whoever loads `*address` with acquire order.
inline void sanitizer_release(void* address) noexcept {
#if VITRINE_DETAIL_THREAD_SANITIZER
  __tsan_release(address);
#else
  (void)address;
#endif
}

}  // namespace vitrine::publish
