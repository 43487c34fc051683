// A program outside this repository that reads its own labels, and profiles itself, as it would
// another.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <set>
#include <string>
#include <vitrine/context.hpp>
#include <vitrine/labels.hpp>
#include <vitrine/observe/context.hpp>
#include <vitrine/observe/labels.hpp>
#include <vitrine/observe/probes.hpp>
#include <vitrine/observe/processes.hpp>
#include <vitrine/observe/profile.hpp>

namespace {

namespace observer = vitrine::observer;
using namespace std::chrono_literals;

int failed(const observer::Error& error) {
  std::printf("%s\n", error.message.c_str());
  return 1;
}

/// Prints each tenant that has samples, once.
int profile() {
  observer::ProfileOptions options;
  options.pids = {getpid()};
  options.frequency = 999;
  auto profiler = observer::Profiler::open(options);
  if (!profiler) return failed(profiler.error());
  volatile unsigned work = 0;
  while (profiler->waiting() < 20) {
    for (unsigned i = 0; i < 10'000'000; ++i) work = work + i;
    if (auto polled = profiler->poll(1ms); !polled) return failed(polled.error());
  }
  profiler->stop();
  const observer::Profile profile = profiler->take();
  std::set<std::string> tenants;
  bool in_main = false;
  for (std::size_t i = 0; i < profile.size(); ++i) {
    const observer::Sample sample = profile.sample(i);
    for (const auto& label : sample.labels) tenants.insert(label.value);
    for (const auto& frame : sample.stack) in_main = in_main || frame.function == "main";
  }
  for (const std::string& tenant : tenants) std::printf("profiled %s\n", tenant.c_str());
  if (!in_main) std::printf("no stack has main\n");
  const auto bytes = profile.encode(observer::Encoding::pprof);
  return bytes && !bytes->empty() ? 0 : 1;
}

/// The rest of the interface: prints what is not as it should be.
void see_the_rest() {
  const auto expect = [](bool condition, const char* what) {
    if (!condition) std::printf("not so: %s\n", what);
  };
  const auto list = observer::list_processes();
  bool listed = false;
  if (list)
    for (const auto& process : list->processes) listed = listed || process.pid == getpid();
  expect(listed, "this process is among those that publish");
  const auto published = vitrine::context::publish({{"service.name", "observer"}});
  const auto context = observer::read_context(getpid());
  expect(published && context && *context, "it has a context");
  const std::string* service = context && *context ? (*context)->find("service.name") : nullptr;
  expect(service != nullptr && *service == "observer", "the context has its name");
  expect(observer::probes_of_process(getpid()).ok(), "its probes can be listed");
  const auto none = observer::read_labels(0x3ffffff);
  expect(!none && none.error().code == observer::ErrorCode::not_found &&
             to_string(none.error().code) == "not-found",
         "there is no such process");
}

}  // namespace

int main() {
  const vitrine::labels::Scope scope(vitrine::labels::Key("tenant"), "acme");
  auto reader = observer::LabelReader::open(getpid());
  if (!reader) return failed(reader.error());
  const auto reading = reader->read();
  if (!reading) return failed(reading.error());
  for (const auto& thread : reading->threads)
    for (const auto& label : thread.set->labels)
      std::printf("%s=%s\n", label.key.c_str(), label.value.c_str());
  see_the_rest();
  std::fflush(stdout);
  return profile();
}
