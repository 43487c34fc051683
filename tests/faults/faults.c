// Makes allocations and system calls of a program fail, at one place of its code in one run: loaded by
// LD_PRELOAD, from its first instruction of main() on. A place is the kind of call and the return
// addresses of the innermost callers, which are the same in each run without address randomisation.
//
// The file that FAULTS names is a `struct table`, shared with all processes that are forked: with
// `target` 0 each place is entered, else the calls of the place `target` fail.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind.h>

#define CALLERS 5
#define PLACES 65536

enum kind { ALLOCATION = 1, OPEN, READ, IOCTL, BPF, MEMORY, PROCESS, DESCRIPTOR };

struct place {
  uint64_t hash;
  uint32_t kind, calls;
  uint64_t callers[CALLERS];
  char library[24];  // whose code makes the call
};

struct table {
  uint64_t target;  // 0: none fails
  uint64_t failed;  // calls that did
  struct place places[PLACES];
};

static struct table* table;
static int armed;
static __thread int busy __attribute__((tls_model("initial-exec")));

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

struct walk {
  uint64_t callers[CALLERS + 2];
  int count;
};

static _Unwind_Reason_Code step(struct _Unwind_Context* context, void* given) {
  struct walk* walk = given;
  if (walk->count == CALLERS + 2) return _URC_END_OF_STACK;
  walk->callers[walk->count++] = _Unwind_GetIP(context);
  return _URC_NO_REASON;
}

/// Whether this call is to fail. Its own frame and that of who asks are not part of the place.
static __attribute__((noinline)) int fails(enum kind kind, int error) {
  if (!table || !armed || busy) return 0;
  busy = 1;
  struct walk walk = {.count = 0};
  _Unwind_Backtrace(step, &walk);
  uint64_t hash = 14695981039346656037ULL ^ kind;
  for (int i = 2; i < walk.count; ++i) hash = (hash ^ walk.callers[i]) * 1099511628211ULL;
  if (hash == 0) hash = 1;
  int failing = 0;
  if (table->target == hash) {
    __atomic_fetch_add(&table->failed, 1, __ATOMIC_RELAXED);
    failing = 1;
  } else if (table->target == 0) {
    for (uint64_t n = 0, at = hash % PLACES; n < PLACES; ++n, at = (at + 1) % PLACES) {
      struct place* place = &table->places[at];
      uint64_t none = 0;
      if (__atomic_compare_exchange_n(&place->hash, &none, hash, 0, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
        place->kind = kind;
        for (int i = 2; i < walk.count; ++i) place->callers[i - 2] = walk.callers[i];
        Dl_info module;
        if (walk.count > 2 && dladdr((void*)walk.callers[2], &module) && module.dli_fname) {
          const char* slash = strrchr(module.dli_fname, '/');
          strncpy(place->library, slash ? slash + 1 : module.dli_fname, sizeof place->library - 1);
        }
      } else if (none != hash) {
        continue;
      }
      __atomic_fetch_add(&place->calls, 1, __ATOMIC_RELAXED);
      break;
    }
  }
  busy = 0;
  if (failing) errno = error;
  return failing;
}

#define REAL(name)                                     \
  static __typeof__(&name) real;                       \
  if (!real) {                                         \
    ++busy;                                            \
    real = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
    --busy;                                            \
  }

static int (*program)(int, char**, char**);

static int begin(int argc, char** argv, char** environment) {
  unsetenv("LD_PRELOAD");  // what the program starts is not looked at
  armed = 1;
  return program(argc, argv, environment);
}

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void* stack_end) {
  __typeof__(&__libc_start_main) real =
      (__typeof__(&__libc_start_main))dlsym(RTLD_NEXT, "__libc_start_main");
  const char* path = getenv("FAULTS");
  const int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  void* shared = file < 0 ? MAP_FAILED
                          : mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (shared == MAP_FAILED) {
    fprintf(stderr, "faults: FAULTS names no file of %zu bytes\n", sizeof *table);
    _exit(125);
  }
  close(file);
  table = shared;
  program = main;
  return real(begin, argc, argv, init, fini, rtld_fini, stack_end);
}

void* malloc(size_t size) {
  return fails(ALLOCATION, ENOMEM) ? NULL : __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  return fails(ALLOCATION, ENOMEM) ? NULL : __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  return fails(ALLOCATION, ENOMEM) ? NULL : __libc_realloc(old, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  return fails(ALLOCATION, ENOMEM) ? NULL : __libc_memalign(alignment, size);
}
int posix_memalign(void** result, size_t alignment, size_t size) {
  if (fails(ALLOCATION, ENOMEM)) return ENOMEM;
  *result = __libc_memalign(alignment, size);
  return *result ? 0 : ENOMEM;
}

static int opened(int dir, const char* path, int flags, mode_t mode) {
  return (int)syscall(SYS_openat, dir, path, flags, mode);
}

#define MODE_OF(flags)                                    \
  mode_t mode = 0;                                        \
  if ((flags) & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) { \
    va_list rest;                                         \
    va_start(rest, flags);                                \
    mode = va_arg(rest, mode_t);                          \
    va_end(rest);                                         \
  }

#define OPEN_FUNCTION(name)                     \
  int name(const char* path, int flags, ...) {  \
    MODE_OF(flags)                              \
    if (fails(OPEN, EMFILE)) return -1;         \
    return opened(AT_FDCWD, path, flags, mode); \
  }
#define OPENAT_FUNCTION(name)                           \
  int name(int dir, const char* path, int flags, ...) { \
    MODE_OF(flags)                                      \
    if (fails(OPEN, EMFILE)) return -1;                 \
    return opened(dir, path, flags, mode);              \
  }
OPEN_FUNCTION(open)
OPEN_FUNCTION(open64)
OPENAT_FUNCTION(openat)
OPENAT_FUNCTION(openat64)

FILE* fopen(const char* path, const char* how) {
  REAL(fopen)
  return fails(OPEN, EMFILE) ? NULL : real(path, how);
}
FILE* fopen64(const char* path, const char* how) {
  REAL(fopen64)
  return fails(OPEN, EMFILE) ? NULL : real(path, how);
}
DIR* opendir(const char* path) {
  REAL(opendir)
  return fails(OPEN, EMFILE) ? NULL : real(path);
}

ssize_t read(int file, void* into, size_t size) {
  return fails(READ, EIO) ? -1 : syscall(SYS_read, file, into, size);
}
ssize_t pread(int file, void* into, size_t size, off_t at) {
  return fails(READ, EIO) ? -1 : syscall(SYS_pread64, file, into, size, at);
}
ssize_t pread64(int file, void* into, size_t size, off64_t at) {
  return fails(READ, EIO) ? -1 : syscall(SYS_pread64, file, into, size, at);
}
ssize_t readlink(const char* path, char* into, size_t size) {
  return fails(READ, EIO) ? -1 : syscall(SYS_readlinkat, AT_FDCWD, path, into, size);
}
ssize_t readlinkat(int dir, const char* path, char* into, size_t size) {
  return fails(READ, EIO) ? -1 : syscall(SYS_readlinkat, dir, path, into, size);
}
ssize_t process_vm_readv(pid_t pid, const struct iovec* into, unsigned long intos,
                         const struct iovec* from, unsigned long froms, unsigned long flags) {
  REAL(process_vm_readv)
  return fails(READ, ENOMEM) ? -1 : real(pid, into, intos, from, froms, flags);
}

int ioctl(int file, unsigned long request, ...) {
  va_list rest;
  va_start(rest, request);
  void* argument = va_arg(rest, void*);
  va_end(rest);
  return fails(IOCTL, ENOMEM) ? -1 : (int)syscall(SYS_ioctl, file, request, argument);
}

void* mmap(void* at, size_t size, int protection, int flags, int file, off_t offset) {
  REAL(mmap)
  return fails(MEMORY, ENOMEM) ? MAP_FAILED : real(at, size, protection, flags, file, offset);
}
void* mmap64(void* at, size_t size, int protection, int flags, int file, off64_t offset) {
  REAL(mmap64)
  return fails(MEMORY, ENOMEM) ? MAP_FAILED : real(at, size, protection, flags, file, offset);
}

pid_t fork(void) {
  REAL(fork)
  return fails(PROCESS, EAGAIN) ? -1 : real();
}
pid_t vfork(void) {
  return fork();
}

int pipe2(int ends[2], int flags) {
  return fails(DESCRIPTOR, EMFILE) ? -1 : (int)syscall(SYS_pipe2, ends, flags);
}
int pipe(int ends[2]) {
  return fails(DESCRIPTOR, EMFILE) ? -1 : (int)syscall(SYS_pipe2, ends, 0);
}
int socketpair(int domain, int type, int protocol, int ends[2]) {
  return fails(DESCRIPTOR, EMFILE) ? -1
                                   : (int)syscall(SYS_socketpair, domain, type, protocol, ends);
}
int memfd_create(const char* name, unsigned flags) {
  return fails(DESCRIPTOR, EMFILE) ? -1 : (int)syscall(SYS_memfd_create, name, flags);
}
int epoll_create1(int flags) {
  return fails(DESCRIPTOR, EMFILE) ? -1 : (int)syscall(SYS_epoll_create1, flags);
}

static enum kind kind_of(long number) {
  switch (number) {
    case SYS_bpf:
    case SYS_perf_event_open:
      return BPF;
    case SYS_openat2:
    case SYS_pidfd_open:
      return OPEN;
    case SYS_clone:
    case SYS_clone3:
      return PROCESS;
    case SYS_process_vm_readv:
      return READ;
    default:
      return 0;
  }
}

/// libc's own is not called: its arguments are variable, too.
long syscall(long number, ...) {
  long argument[6];
  va_list rest;
  va_start(rest, number);
  for (int i = 0; i < 6; ++i) argument[i] = va_arg(rest, long);
  va_end(rest);
  const enum kind kind = kind_of(number);
  if (kind && fails(kind, kind == OPEN ? EMFILE : kind == PROCESS ? EAGAIN : ENOMEM)) return -1;
  REAL(syscall)
  return real(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}
