// A program outside this repository that reads its own labels, as it would read another's.
#include <unistd.h>

#include <cstdio>
#include <vitrine/labels.hpp>

#include "observe/labels.hpp"

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
}
