// A library whose code computes for ever.
#include <atomic>
#include <cstdint>

namespace {
std::atomic<std::uint64_t> sink;
}

extern "C" [[gnu::noinline]] std::uint64_t plugin_step(std::uint64_t x) {
  for (int i = 0; i < 2000; ++i) x = x * 2862933555777941757U + (x >> 31);
  return x;
}

extern "C" void plugin_burn() {
  for (;;) {
    sink += plugin_step(sink);
    sink += 1;
  }
}
