// A program outside this repository that reads its own labels, and profiles itself, as it would
// another.
#include <unistd.h>

#include <cstdio>
#include <set>
#include <string>
#include <vitrine/labels.hpp>

#include "observe/labels.hpp"
#include "observe/profiling.hpp"
#include "profile/encode.hpp"

namespace {

using namespace std::chrono_literals;

/// Prints each tenant that has samples, once.
int profile() {
  vitrine::observe::ProfilingOptions options;
  options.pids = {getpid()};
  options.frequency = 999;
  auto profiling = vitrine::observe::Profiling::open(options);
  if (!profiling) {
    std::printf("%s\n", profiling.error().message.c_str());
    return 1;
  }
  volatile unsigned work = 0;
  while ((*profiling)->waiting() < 20) {
    for (unsigned i = 0; i < 10'000'000; ++i) work = work + i;
    if (auto polled = (*profiling)->poll(1ms); !polled) return 1;
  }
  (*profiling)->stop();
  const auto profile = (*profiling)->take();
  std::set<std::string> tenants;
  for (const auto& sample : profile.samples)
    if (sample.labels != vitrine::profile::none)
      for (const auto& label : profile.label_sets[sample.labels]) tenants.insert(label.value);
  for (const std::string& tenant : tenants) std::printf("profiled %s\n", tenant.c_str());
  const auto bytes = vitrine::profile::encode(profile, vitrine::profile::Encoding::pprof);
  return bytes && !bytes->empty() ? 0 : 1;
}

}  // namespace

int main() {
  const vitrine::labels::Scope scope(vitrine::labels::Key("tenant"), "acme");
  vitrine::observe::LabelOptions options;
  options.mode = vitrine::observe::Mode::snapshot;
  auto reader = vitrine::observe::LabelReader::open(getpid(), options);
  if (!reader) {
    std::printf("%s\n", reader.error().message.c_str());
    return 1;
  }
  const auto snapshot = (*reader)->read(std::chrono::milliseconds(0));
  if (!snapshot) {
    std::printf("%s\n", snapshot.error().message.c_str());
    return 1;
  }
  for (const auto& thread : snapshot->threads)
    for (const auto& label : thread.set->labels)
      std::printf("%s=%s\n", label.key.c_str(), label.value.c_str());
  std::fflush(stdout);
  return profile();
}
