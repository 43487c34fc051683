// usage: sender URL SPOOL. Reads from standard input:
//   send TEXT    hands a request over
//   finish MS    says "sent waiting overflowed", when what was handed over is in the spool at least
// At the end of its input it goes on for ever.
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <string>

#include "export/exporter.hpp"

int main(int count, char** arguments) {
  using namespace std::chrono_literals;
  if (count != 3) return 2;
  vitrine::exporter::ExportOptions options;
  options.url = arguments[1];
  options.spool = arguments[2];
  options.first_retry = 50ms;
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
    }
  }
  while (true) ::pause();
}
