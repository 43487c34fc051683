// What the subject loads with dlopen.
#include <cstring>

namespace {
[[gnu::noinline]] int inner(void (*callback)(void*), void* argument) {
  char room[200];
  std::memset(room, 1, sizeof room);
  callback(argument);
  return room[7];
}
}  // namespace

extern "C" [[gnu::visibility("default")]] int library_entry(void (*callback)(void*),
                                                            void* argument) {
  return inner(callback, argument) + 1;
}
