// The child processes of this process, of all its threads, by the kernel's count. Zombies count, too.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <system_error>
#include <utility>

namespace vitrine::test {

/// A process: its number, and when it was started.
using StartedProcess = std::pair<int, std::string>;

/// Where children start and end meanwhile, there may never have been all of these at once: the kernel lists those of one
/// thread after the other.
inline std::set<StartedProcess> children() {
  std::set<StartedProcess> found;
  std::error_code none;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", none)) {
    std::ifstream in(task.path() / "children");
    for (int child; in >> child;) {
      std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
      std::string line;
      if (!std::getline(stat, line)) continue;  // it has been reaped
      line.erase(0, line.rfind(')') + 2);       // from its state on, the third field
      constexpr int start_time = 22 - 3;
      for (int i = 0; i < start_time; ++i) line.erase(0, line.find(' ') + 1);
      found.emplace(child, line.substr(0, line.find(' ')));
    }
  }
  return found;
}

/// Those that there were at one time: between two lists that both have them.
inline std::set<StartedProcess> children_at_once() {
  const auto before = children(), after = children();
  std::set<StartedProcess> both;
  std::ranges::set_intersection(before, after, std::inserter(both, both.begin()));
  return both;
}

}  // namespace vitrine::test
