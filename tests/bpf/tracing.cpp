// A tracer in a process of its own, to be killed or to run with few rights.
// usage: tracing FILE SITE SEMAPHORE PID COUNT
// Prints "attached", and once it has seen COUNT fires (0: never), how many it saw and lost.
#include <fcntl.h>

#include <cstdio>
#include <cstdlib>

#include "bpf/tracer.hpp"

namespace {

int complain(const vitrine::Error& error) {
  std::printf("%s; %s\n", error.message.c_str(), error.remedy.c_str());
  return error.code == vitrine::ErrorCode::not_permitted ? 3 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace vitrine::bpf;
  if (argc != 6) return 2;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
  TracerOptions options;
  options.labels = false;
  auto tracer = Tracer::open(options);
  if (!tracer) return complain(tracer.error());
  vitrine_site_program program{};
  program.value = program.match = VITRINE_NO_CAPTURE;
  if (auto told = (*tracer)->set_program(0, program); !told) return complain(told.error());
  AttachSite site;
  site.file_offset = number(2);
  site.semaphore_offset = number(3);
  std::optional<pid_t> pid;
  if (number(4) != 0) pid = static_cast<pid_t>(number(4));
  auto attached = (*tracer)->attach(::open(argv[1], O_RDONLY), std::span(&site, 1), pid);
  if (!attached) return complain(attached.error());
  if (!attached->failures.empty()) return complain(attached->failures[0].error);
  std::puts("attached");
  const std::size_t wanted = number(5);
  for (std::size_t seen = 0; wanted == 0 || seen < wanted;) {
    auto polled = (*tracer)->poll(std::chrono::milliseconds(100), [](const Fire&) {});
    if (!polled) return complain(polled.error());
    seen += *polled;
  }
  std::printf("saw %zu lost %llu\n", wanted,
              static_cast<unsigned long long>((*tracer)->counters()[VITRINE_TRACE_LOST]));
  return 0;
}
