// The same as racing.c, published by vitrine's own library: racing_vitrine PAUSE_NS THREADS.
// Whole, or (between two scopes) none.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>
#include <vitrine/labels.hpp>

namespace {

std::string value_of(std::uint64_t generation) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(generation));
  return digits + std::string(generation % 64, static_cast<char>('a' + generation % 26)) + digits;
}

void rest(std::chrono::nanoseconds pause) {
  if (pause >= std::chrono::microseconds(50)) {
    std::this_thread::sleep_for(pause);
    return;
  }
  const auto end = std::chrono::steady_clock::now() + pause;
  while (std::chrono::steady_clock::now() < end) {
  }
}

void run(std::chrono::nanoseconds pause) {
  const vitrine::labels::Key first("first"), second("second"), third("third");
  for (std::uint64_t generation = 1;; ++generation) {
    const std::string value = value_of(generation);
    const vitrine::labels::Scope scope({{first, value}, {second, value}, {third, value}});
    rest(pause);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::chrono::nanoseconds pause(std::atol(argv[1]));
  for (int n = std::atoi(argv[2]); n > 0; --n) std::thread(run, pause).detach();
  std::puts("ready");
  std::fflush(stdout);
  std::getchar();
  std::_Exit(0);
}
