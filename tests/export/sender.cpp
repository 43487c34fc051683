// usage: sender URL SPOOL [HEADER]. Reads from standard input:
//   send TEXT    hands a request over: items with commas between them, which it can be split into
//   finish MS    prints "sent waiting overflowed", when what was handed over is in the spool at least
//   counts       prints "sent waiting overflowed refused rejected unwritten"
//   clock S      has the system's clock go on S seconds ahead of what it is
//   stop         ends as a program does, and prints those counts
// At the end of its input it goes on for ever.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "export/exporter.hpp"

namespace {

std::atomic<long> clock_offset{0};

std::vector<std::string> halves(std::string_view request) {
  const std::size_t middle = request.find(',', request.size() / 2);
  if (middle == request.npos) return {};
  return {std::string(request.substr(0, middle)), std::string(request.substr(middle + 1))};
}

void print_counts(const vitrine::exporter::ExportCounters& counters) {
  std::cout << counters.sent << ' ' << counters.waiting << ' ' << counters.overflowed << ' '
            << counters.refused << ' ' << counters.rejected << ' ' << counters.unwritten
            << std::endl;
}

}  // namespace

/// In place of the C library's: the clock of this process alone.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_REALTIME) time->tv_sec += clock_offset.load();
  return result;
}

int main(int count, char** arguments) {
  using namespace std::chrono_literals;
  if (count < 3) return 2;
  vitrine::exporter::ExportOptions options;
  options.url = arguments[1];
  options.spool = arguments[2];
  if (count > 3) options.headers = {arguments[3]};
  options.first_retry = 50ms;
  options.last_retry = 200ms;
  options.split = halves;
  auto exporter = vitrine::exporter::Exporter::open(options);
  if (!exporter) {
    std::cout << exporter.error().message << std::endl;
    return 1;
  }
  std::string verb;
  while (std::cin >> verb) {
    if (verb == "send") {
      std::string text;
      std::cin >> text;
      (*exporter)->send(text);
    } else if (verb == "finish") {
      long ms = 0;
      std::cin >> ms;
      (*exporter)->finish(std::chrono::milliseconds(ms));
      const auto counters = (*exporter)->counters();
      std::cout << counters.sent << ' ' << counters.waiting << ' ' << counters.overflowed
                << std::endl;
    } else if (verb == "counts") {
      print_counts((*exporter)->counters());
    } else if (verb == "clock") {
      long seconds = 0;
      std::cin >> seconds;
      clock_offset = seconds;
    } else if (verb == "stop") {
      (*exporter)->stop();
      print_counts((*exporter)->counters());
      return 0;
    }
  }
  while (true) ::pause();
}
