#include "publish/failing_calls.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>

namespace vitrine::test {

std::atomic<long> calls{0}, fault_at{0};
std::atomic<Mode> fault_mode{Mode::once};
__thread bool inside = false;
std::atomic<const char*> last_fault{nullptr};

}  // namespace vitrine::test

namespace {

using namespace vitrine::test;  // NOLINT: the functions below are outside any namespace

bool fails(const char* what, int error) {
  if (!inside) return false;
  const long at = fault_at.load(), call = ++calls;
  if (at == 0 || (fault_mode == Mode::once ? call != at : call < at)) return false;
  last_fault = what;
  errno = error;
  return true;
}

/// While the program is being loaded, with this variable in its environment: no handler is registered.
bool refused_at_load();

template <class F>
F* real(const char* name, F*) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}
/// The function that this program's own stands before.
#define REAL(name) (real(#name, &::name))

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) {
  return fails("malloc", ENOMEM) ? nullptr : __libc_malloc(size);
}
void* calloc(std::size_t n, std::size_t size) {
  return fails("calloc", ENOMEM) ? nullptr : __libc_calloc(n, size);
}
void* realloc(void* old, std::size_t size) {
  return fails("realloc", ENOMEM) ? nullptr : __libc_realloc(old, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return fails("aligned_alloc", ENOMEM) ? nullptr : __libc_memalign(alignment, size);
}
void* mmap(void* address, std::size_t size, int protection, int flags, int fd,
           off_t offset) noexcept {
  if (fails("mmap", ENOMEM)) return MAP_FAILED;
  return REAL(mmap)(address, size, protection, flags, fd, offset);
}
int munmap(void* address, std::size_t size) noexcept {
  return fails("munmap", ENOMEM) ? -1 : REAL(munmap)(address, size);
}
int madvise(void* address, std::size_t size, int advice) noexcept {
  return fails("madvise", EAGAIN) ? -1 : REAL(madvise)(address, size, advice);
}
int mincore(void* address, std::size_t size, unsigned char* resident) noexcept {
  return fails("mincore", EAGAIN) ? -1 : REAL(mincore)(address, size, resident);
}
int prctl(int option, ...) noexcept {
  va_list list;
  va_start(list, option);
  unsigned long words[4];
  for (unsigned long& word : words) word = va_arg(list, unsigned long);
  va_end(list);
  if (fails("prctl", EPERM)) return -1;
  return REAL(prctl)(option, words[0], words[1], words[2], words[3]);
}
long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long words[6];
  for (long& word : words) word = va_arg(list, long);
  va_end(list);
  if (fails(number == SYS_memfd_create ? "memfd_create" : "syscall", EPERM)) return -1;
  return REAL(syscall)(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const auto mode = va_arg(list, unsigned);
  va_end(list);
  return fails("open", EMFILE) ? -1 : REAL(open)(path, flags, mode);
}
ssize_t read(int fd, void* to, std::size_t size) {
  return fails("read", EIO) ? -1 : REAL(read)(fd, to, size);
}
ssize_t pread(int fd, void* to, std::size_t size, off_t offset) {
  return fails("pread", EIO) ? -1 : REAL(pread)(fd, to, size, offset);
}
int ftruncate(int fd, off_t size) noexcept {
  return fails("ftruncate", ENOSPC) ? -1 : REAL(ftruncate)(fd, size);
}
int close(int fd) {
  const int result = REAL(close)(fd);  // closed all the same, as Linux does
  return fails("close", EINTR) ? -1 : result;
}
ssize_t getrandom(void* to, std::size_t size, unsigned flags) {
  return fails("getrandom", EINTR) ? -1 : REAL(getrandom)(to, size, flags);
}
ssize_t readlink(const char* path, char* to, std::size_t size) noexcept {
  return fails("readlink", EACCES) ? -1 : REAL(readlink)(path, to, size);
}
int clock_gettime(clockid_t clock, timespec* now) noexcept {
  return fails("clock_gettime", EINVAL) ? -1 : REAL(clock_gettime)(clock, now);
}
int nanosleep(const timespec* span, timespec* rest) {
  return fails("nanosleep", EINTR) ? -1 : REAL(nanosleep)(span, rest);
}
int pthread_setspecific(pthread_key_t key, const void* value) noexcept {
  return fails("pthread_setspecific", ENOMEM) ? ENOMEM : REAL(pthread_setspecific)(key, value);
}
int pthread_key_create(pthread_key_t* key, void (*at_exit)(void*)) noexcept {
  if (refused_at_load() || fails("pthread_key_create", EAGAIN)) return EAGAIN;
  return REAL(pthread_key_create)(key, at_exit);
}
// glibc has this one in each program: the C library's own is another.
int __register_atfork(void (*)(), void (*)(), void (*)(), void*);
extern void* __dso_handle;
int pthread_atfork(void (*prepare)(), void (*parent)(), void (*child)()) noexcept {
  if (refused_at_load() || fails("pthread_atfork", ENOMEM)) return ENOMEM;
  return __register_atfork(prepare, parent, child, __dso_handle);
}
}

namespace {

volatile bool main_began = false;  // clang would run the constructor beforehand
/// After the library's constructor (101), and before those of googletest, which may not fail.
__attribute__((constructor(65534))) void note_main() {
  main_began = true;
}
bool refused_at_load() {
  return !main_began && getenv("VITRINE_TEST_REFUSE_AT_LOAD") != nullptr;
}

}  // namespace
