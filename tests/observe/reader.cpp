// A reader as a program of its own, so that tests can kill it, or run it with fewer rights.
//
//   observe_reader MODE PID [READINGS [WINDOW_MS]]     READINGS 0: for ever
//   observe_reader doctor
//
// Prints each thread of each reading: tid, format, evidence, labels or error; then "note TEXT"
// lines and "reading". Ends with the exit code of its error: 3 not permitted, 4 not found, else 1.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "observe/doctor.hpp"
#include "observe/labels/labels.hpp"

using namespace vitrine;

namespace {

int report(const Error& error) {
  std::printf("error %s\n", error.message.c_str());
  if (!error.remedy.empty()) std::printf("remedy %s\n", error.remedy.c_str());
  return error.code == ErrorCode::not_permitted ? 3 : error.code == ErrorCode::not_found ? 4 : 1;
}

void print(const observe::ThreadLabels& thread) {
  std::printf("%d %s %s", thread.tid, std::string(format::name(thread.format)).c_str(),
              std::string(observe::name(thread.evidence)).c_str());
  if (!thread.set) std::printf(" error: %s", thread.set.error().message.c_str());
  if (thread.set)
    for (const format::Label& label : thread.set->labels)
      std::printf(" %s=%s", label.key.c_str(), label.value.c_str());
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2) {
    for (const observe::Finding& finding : observe::examine())
      std::printf("%s %s\n", finding.what.c_str(),
                  std::string(observe::name(finding.verdict)).c_str());
    return 0;
  }
  if (argc < 3) return 2;
  observe::LabelOptions options;
  const std::string mode = argv[1];
  options.mode = mode == "ebpf"     ? observe::Mode::ebpf
                 : mode == "ptrace" ? observe::Mode::ptrace
                                    : observe::Mode::snapshot;
  options.sample_hz = 999;
  const int readings = argc > 3 ? std::atoi(argv[3]) : 1;
  const std::chrono::milliseconds window(argc > 4 ? std::atoi(argv[4]) : 200);

  auto reader = observe::LabelReader::open(std::atoi(argv[2]), options);
  if (!reader) return report(reader.error());
  for (int i = 0; readings == 0 || i < readings; ++i) {
    auto snapshot = (*reader)->read(window);
    if (!snapshot) return report(snapshot.error());
    for (const observe::ThreadLabels& thread : snapshot->threads) print(thread);
    for (const std::string& note : snapshot->notes) std::printf("note %s\n", note.c_str());
    std::printf("reading\n");
    std::fflush(stdout);
  }
  return 0;
}
