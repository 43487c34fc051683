#include "bare_store.hpp"

namespace bench {

#if defined(BENCH_THROUGH_LIBRARY)
extern __thread const void* volatile slot;
__thread const void* volatile slot = nullptr;
void store(const void* pointer) {
  slot = pointer;
}
#else
thread_local constinit const void* volatile slot = nullptr;
#endif

}  // namespace bench
