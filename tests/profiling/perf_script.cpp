#include "profiling/perf_script.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "support/child.hpp"

namespace vitrine::test {

PerfStacks perf_stacks(pid_t pid, std::chrono::seconds duration) {
  const std::filesystem::path data =
      std::filesystem::path(testing::TempDir()) / ("perf-" + std::to_string(getpid()) + ".data");
  const auto recorded =
      run({"perf", "record", "-q", "-e", "cpu-clock", "-F", "99", "--call-graph", "dwarf,2048",
           "-o", data, "-p", std::to_string(pid), "--", "sleep", std::to_string(duration.count())},
          {}, duration + std::chrono::seconds(60));
  EXPECT_EQ(recorded.status, 0) << recorded.err;
  const auto script =
      run({"perf", "script", "-i", data, "-F", "ip,sym"}, {}, std::chrono::minutes(2));
  EXPECT_EQ(script.status, 0) << script.err;
  std::filesystem::remove(data);

  // A line a frame, "    ADDRESS NAME", and an empty one after each sample.
  PerfStacks stacks;
  std::vector<std::string> stack;
  std::istringstream lines(script.out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string address, name;
    if (!(words >> address)) {
      if (!stack.empty()) stacks.push_back(std::move(stack));
      stack.clear();
      continue;
    }
    std::getline(words >> std::ws, name);
    stack.push_back(name);
  }
  if (!stack.empty()) stacks.push_back(std::move(stack));
  return stacks;
}

}  // namespace vitrine::test
