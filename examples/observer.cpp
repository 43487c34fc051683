// Embeds the observing library: prints the labels of a process, then fires of its probes with the
// labels of the thread that fired.
//
//   observer PID [PROBE [SECONDS]]        observer 4242 'shop:*' 10
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <variant>
#include <vitrine/observe/labels.hpp>
#include <vitrine/observe/trace.hpp>

namespace {

namespace observer = vitrine::observer;
using namespace std::chrono_literals;

std::string text(const observer::LabelSet& set) {
  std::string out;
  for (const auto& [key, value] : set.labels) out += " " + key + "=" + value;
  return out;
}

/// Numbers and text; other kinds of values are left out here.
std::string text(const observer::Argument& argument) {
  std::string out = " " + argument.name + ":";
  if (const auto* number = std::get_if<std::int64_t>(&argument.value))
    out += std::to_string(*number);
  if (const auto* number = std::get_if<double>(&argument.value)) out += std::to_string(*number);
  if (const auto* words = std::get_if<observer::Text>(&argument.value)) out += words->data;
  return out;
}

int failed(const observer::Error& error) {
  std::fprintf(stderr, "observer: %s\n", error.message.c_str());
  if (!error.remedy.empty()) std::fprintf(stderr, "  %s\n", error.remedy.c_str());
  return error.code == observer::ErrorCode::not_permitted ? 3 : 1;
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) return std::fprintf(stderr, "usage: observer PID [PROBE [SECONDS]]\n"), 2;
  const int pid = std::atoi(words[1]);

  const auto reading = observer::read_labels(pid);
  if (!reading) return failed(reading.error());
  for (const auto& thread : reading->threads)
    if (thread.set) std::printf("%d%s\n", thread.tid, text(*thread.set).c_str());
  if (count < 3) return 0;

  observer::TraceOptions options;
  options.pids = {pid};
  options.probes = {words[2]};
  auto trace = observer::Trace::open(options);
  if (!trace) return failed(trace.error());
  std::fflush(stdout);
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(count > 3 ? std::atoi(words[3]) : 10);
  while (!trace->ended() && std::chrono::steady_clock::now() < end) {
    const auto polled = trace->poll(100ms, [](const observer::TraceEvent& event) {
      std::printf("%d %s", event.tid, event.probe.c_str());
      for (const auto& argument : event.arguments) std::printf("%s", text(argument).c_str());
      std::printf("%s\n", text(event.labels).c_str());
    });
    if (!polled) return failed(polled.error());
  }
  if (trace->lost() != 0)
    std::fprintf(stderr, "observer: %llu fires were lost\n",
                 static_cast<unsigned long long>(trace->lost()));
  return 0;
}
