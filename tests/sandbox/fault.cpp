// Files that their parser cannot stand, without a fault in the parser: reading a KiB with a mark
// behind its first nine bytes (in the first KiB that is padding of the ELF header) does to the
// reading process what the mark says. To be linked into a test, or preloaded into the command.
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

extern "C" ssize_t pread64(int file, void* to, std::size_t size, off64_t offset) {
  const ssize_t got = ::syscall(SYS_pread64, file, to, size, offset);
  if (offset % 1024 != 0 || got < 16) return got;
  if (size == 4096) return got;  // for a hash of the file, which is no parsing
  const char* mark = static_cast<const char*>(to) + 9;
  if (std::memcmp(mark, "!crash!", 7) == 0) {
    volatile int* nowhere = nullptr;
    *nowhere = 1;
  }
  if (std::memcmp(mark, "!stall!", 7) == 0)
    for (volatile unsigned n = 0;;) n = n + 1;
  if (std::memcmp(mark, "!slow!!", 7) == 0) {
    timespec begin{}, now{};
    ::clock_gettime(CLOCK_MONOTONIC, &begin);
    do ::clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1'000'000 < 200);
  }
  if (std::memcmp(mark, "!eats!!", 7) == 0)
    for (;;) static_cast<volatile char*>(static_cast<void*>(new char[1U << 20]))[0] = 1;
  return got;
}
