// Subjects of the reading tests, and looking at them without vitrine.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "observe/labels/labels.hpp"
#include "support/child.hpp"

namespace vitrine::test {

inline Child start_subject(const std::string& kind, ChildOptions options = {}) {
  Child child = Child::spawn({OBSERVE_SUBJECT, kind}, std::move(options));
  EXPECT_EQ(child.read_line(), "ready");
  return child;
}

/// Sends a line, and returns the numbers of the answer.
inline std::vector<long> ask(Child& child) {
  child.write("\n");
  std::istringstream line(child.read_line().value_or(""));
  std::vector<long> numbers;
  for (long number; line >> number;) numbers.push_back(number);
  return numbers;
}

/// Every thread of a subject that works has counted on since it said `counts`.
inline void expect_counting_on(Child& child, const std::vector<long>& counts) {
  for (int attempt = 0;; ++attempt) {
    const auto now = ask(child);
    ASSERT_EQ(now.size(), counts.size());
    bool all = true;
    for (std::size_t i = 0; i < now.size(); ++i) all = all && now[i] > counts[i];
    if (all) return;
    ASSERT_LT(attempt, 1000) << "a thread does not go on";
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

/// "State" and "TracerPid" of each thread, by tid.
struct ThreadStatus {
  char state = '?';
  int tracer = 0;
};

inline std::map<int, ThreadStatus> threads_of(pid_t pid) {
  std::map<int, ThreadStatus> threads;
  std::error_code gone;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", gone)) {
    ThreadStatus status;
    std::ifstream file(entry.path() / "status");
    for (std::string line; std::getline(file, line);) {
      if (line.rfind("State:\t", 0) == 0) status.state = line[7];
      if (line.rfind("TracerPid:\t", 0) == 0) status.tracer = std::stoi(line.substr(11));
    }
    threads[std::stoi(entry.path().filename())] = status;
  }
  return threads;
}

/// No thread is stopped or traced. One may just be about to go on, so it gets a moment.
inline void expect_unharmed(pid_t pid) {
  std::string harm;
  for (int attempt = 0; attempt < 200; ++attempt) {
    harm.clear();
    for (const auto& [tid, status] : threads_of(pid))
      if (status.state == 't' || status.state == 'T' || status.tracer != 0)
        harm += "thread " + std::to_string(tid) + " is " + status.state + ", traced by " +
                std::to_string(status.tracer) + "; ";
    if (harm.empty()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ADD_FAILURE() << harm;
}

inline std::unique_ptr<observe::LabelReader> open_reader(pid_t pid, observe::Mode mode) {
  observe::LabelOptions options;
  options.mode = mode;
  options.sample_hz = 999;
  auto reader = observe::LabelReader::open(pid, options);
  if (reader) return std::move(*reader);
  ADD_FAILURE() << reader.error().message;
  return nullptr;
}

inline std::string value_of(const observe::ThreadLabels& thread, const std::string& key) {
  if (thread.set)
    for (const format::Label& label : thread.set->labels)
      if (label.key == key) return label.value;
  return {};
}

}  // namespace vitrine::test
