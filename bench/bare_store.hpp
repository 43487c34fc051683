// The least that publishing can cost: one store to a thread-local pointer.
#pragma once

namespace bench {

#if defined(BENCH_THROUGH_LIBRARY)
/// In a shared library of its own, through a TLS descriptor: what a C caller of any label library
/// pays before it has done anything.
void store(const void* pointer);
#else
extern thread_local constinit const void* volatile slot;
inline void store(const void* pointer) {
  slot = pointer;
}
#endif

}  // namespace bench
