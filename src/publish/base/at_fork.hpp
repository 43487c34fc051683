// What runs at fork.
#pragma once

#include <pthread.h>

// at_fork: pthread_atfork, which glibc has in an archive, as a call of __register_atfork, and musl has
// under its name. A library that either is to load refers to both, weakly.

#if !VITRINE_PUBLISH_STATIC
extern "C" {
int __register_atfork(void (*)(), void (*)(), void (*)(), void*) __attribute__((weak));  // NOLINT
int vitrine_musl_atfork(void (*)(), void (*)(), void (*)()) __asm__("pthread_atfork")
    __attribute__((weak));
extern void* __dso_handle __attribute__((visibility("hidden")));  // NOLINT: the compiler's
}
#endif

namespace vitrine::publish {

inline int at_fork(void (*before)(), void (*in_parent)(), void (*in_child)()) noexcept {
#if VITRINE_PUBLISH_STATIC
  return pthread_atfork(before, in_parent, in_child);
#else
  if (__register_atfork != nullptr)
    return __register_atfork(before, in_parent, in_child, &__dso_handle);
  return vitrine_musl_atfork != nullptr ? vitrine_musl_atfork(before, in_parent, in_child) : -1;
#endif
}

}  // namespace vitrine::publish
