// What is loaded in the kernel's BPF machine, to see what someone who was killed has left there.
#pragma once

#include <bpf/bpf.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <string>
#include <thread>

namespace vitrine::test {

inline std::set<std::string> bpf_objects() {
  std::set<std::string> objects;
  for (__u32 id = 0; bpf_prog_get_next_id(id, &id) == 0;)
    objects.insert(fmt::format("prog {}", id));
  for (__u32 id = 0; bpf_map_get_next_id(id, &id) == 0;) objects.insert(fmt::format("map {}", id));
  for (__u32 id = 0; bpf_link_get_next_id(id, &id) == 0;)
    objects.insert(fmt::format("link {}", id));
  return objects;
}

/// What is there now and was not then. The kernel frees late, so it gets a moment; what others on
/// this machine load meanwhile goes away, too.
inline std::set<std::string> left_behind(const std::set<std::string>& before) {
  std::set<std::string> left;
  for (int attempt = 0; attempt < 100; ++attempt) {
    const auto now = bpf_objects();
    std::set<std::string> added;
    std::set_difference(now.begin(), now.end(), before.begin(), before.end(),
                        std::inserter(added, added.end()));
    if (attempt == 0) left = added;
    std::set<std::string> still;
    std::set_intersection(left.begin(), left.end(), added.begin(), added.end(),
                          std::inserter(still, still.end()));
    left = still;
    if (left.empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return left;
}

}  // namespace vitrine::test
