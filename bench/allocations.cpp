#include "allocations.hpp"

#include <atomic>
#include <cerrno>

// glibc's own entry points, behind the ones that are counted here.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {
// Not atomic read-modify-writes: those would make the malloc that others are measured against
// slower.
std::atomic<std::size_t> count;
void one_more() {
  count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}
}  // namespace

std::size_t bench::allocations() {
  return count;
}

extern "C" {
void* malloc(std::size_t size) {
  one_more();
  return __libc_malloc(size);
}
void* calloc(std::size_t n, std::size_t size) {
  one_more();
  return __libc_calloc(n, size);
}
void* realloc(void* old, std::size_t size) {
  one_more();
  return __libc_realloc(old, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  one_more();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  one_more();
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}
}
