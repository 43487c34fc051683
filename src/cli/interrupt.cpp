#include "cli/interrupt.hpp"

#include <csignal>
#include <ctime>

namespace vitrine::cli {
namespace {

std::atomic<bool> flag{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set in a signal handler");

}  // namespace

const std::atomic<bool>& interrupted() {
  return flag;
}

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { flag = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

void sleep_until(std::chrono::steady_clock::time_point when) {
  using namespace std::chrono;
  while (!flag) {
    const auto left = when - steady_clock::now();
    if (left <= nanoseconds(0)) return;
    // Short naps: an interrupt that lands between the test of the flag and the sleep costs one.
    const auto nap = std::min<nanoseconds>(left, milliseconds(50));
    const timespec time{0, static_cast<long>(nap.count())};
    nanosleep(&time, nullptr);
  }
}

}  // namespace vitrine::cli
