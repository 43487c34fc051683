// Traces of trace_subject.c, and what they saw.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "observe/trace/trace.hpp"
#include "support/child.hpp"

namespace vitrine::test {

using observe::Trace;
using observe::TraceEvent;
using observe::TraceOptions;

inline constexpr std::chrono::seconds patience{60};

/// What outlives the event.
struct SeenFire {
  pid_t pid = 0;
  pid_t tid = 0;
  std::string comm;
  std::string probe;
  std::string module;
  std::vector<std::string> names;
  std::vector<probe::Value> values;
  format::LabelSet labels;
  std::string labels_error;
  std::vector<symbol::StackFrame> stack;
  std::uint64_t time_ns = 0;
  Address site = 0;
};

inline SeenFire seen(const TraceEvent& event) {
  SeenFire fire{event.pid,
                event.tid,
                event.comm,
                std::string(event.probe),
                std::string(event.module),
                {},
                {},
                *event.labels,
                std::string(event.labels_error),
                event.stack,
                event.time_ns,
                event.site};
  for (const observe::FiredArgument& argument : event.arguments) {
    fire.names.emplace_back(argument.name);
    fire.values.push_back(argument.value.value_or(probe::ValueError{"nothing"}));
  }
  return fire;
}

inline std::unique_ptr<Trace> open_trace(TraceOptions options) {
  auto trace = Trace::open(std::move(options));
  if (trace) return std::move(*trace);
  ADD_FAILURE() << trace.error().message << "; " << trace.error().remedy;
  return nullptr;
}

inline TraceOptions of_process(pid_t pid, std::vector<std::string> probes) {
  TraceOptions options;
  options.target.pids = {pid};
  options.probes = std::move(probes);
  return options;
}

/// Polls until `enough` says so of what was seen, or patience ends: then the test fails.
inline std::vector<SeenFire> collect(
    Trace& trace, const std::function<bool(const std::vector<SeenFire>&)>& enough) {
  std::vector<SeenFire> fires;
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!enough(fires)) {
    const auto polled = trace.poll(std::chrono::milliseconds(20),
                                   [&](const TraceEvent& event) { fires.push_back(seen(event)); });
    if (!polled) {
      ADD_FAILURE() << polled.error().message;
      return fires;
    }
    if (std::chrono::steady_clock::now() > end) {
      const observe::TraceCounters counters = trace.counters();
      ADD_FAILURE() << "only " << fires.size() << " fires came; the kernel counted "
                    << counters.fires << ", " << counters.lost << " of them lost";
      return fires;
    }
  }
  return fires;
}

inline std::vector<SeenFire> collect(Trace& trace, std::size_t count) {
  return collect(trace, [&](const auto& fires) { return fires.size() >= count; });
}

/// What is there without waiting for more.
inline std::vector<SeenFire> collect_rest(Trace& trace) {
  std::vector<SeenFire> fires;
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(trace.poll(std::chrono::milliseconds(20),
                           [&](const TraceEvent& event) { fires.push_back(seen(event)); }));
  return fires;
}

inline Child start_trace_subject(ChildOptions options = {}, std::string program = TRACE_SUBJECT) {
  Child child = Child::spawn({std::move(program)}, std::move(options));
  const auto ready = child.read_line();
  EXPECT_TRUE(ready && ready->rfind("ready ", 0) == 0);
  return child;
}

/// Gives a command and waits for the answer.
inline std::string tell(Child& child, const std::string& command) {
  child.write(command + "\n");
  return child.read_line(patience).value_or("no answer");
}

}  // namespace vitrine::test
