// CgroupNames: what the control group of a process is called, and the container that it is.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace vitrine::observe {

struct Cgroup {
  std::uint64_t id = 0;  ///< of the unified hierarchy: the inode of its directory; 0: not looked up
  std::string path;      ///< below the mount of that hierarchy, or the id if that is gone
  std::string container;  ///< 64 hexadecimal digits; empty: in none
};

/// The path in the text of /proc/PID/cgroup: in the line of the unified hierarchy ("0::/path"), or where
/// there is none, in the first.
std::string cgroup_path(std::string_view text);

/// The kernel gives the id that a control group has in the unified hierarchy (cgroup v2), also where
/// v1 hierarchies are mounted beside it. Its path is that of /proc/PID/cgroup, if the directory of
/// that path has the id: a process may have moved, or be another one by now. Else the directory is
/// looked for. Containers of a v1 hierarchy are in the unified one's root, so that their ids are in
/// the other lines of the file alone.
class CgroupNames {
 public:
  CgroupNames();

  /// `pid`: of the process, if it still has it; 0: it has ended, or is not visible here.
  Cgroup of(std::uint64_t id, pid_t pid);

 private:
  [[nodiscard]] bool is_at(const std::string& path, std::uint64_t id) const;
  const std::string* find(std::uint64_t id);

  std::string mount_;  ///< of the unified hierarchy; empty: none
  std::unordered_map<std::uint64_t, std::string> paths_;
  std::optional<std::chrono::steady_clock::time_point> walked_;
};

}  // namespace vitrine::observe
