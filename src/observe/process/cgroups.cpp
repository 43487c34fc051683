#include "observe/process/cgroups.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <string_view>
#include <system_error>

#include "observe/process/facts.hpp"
#include "target/proc_file.hpp"

namespace vitrine::observe {
namespace {

using CgroupClock = std::chrono::steady_clock;

constexpr std::size_t max_directories = 65'536;   // of one walk
constexpr std::size_t max_kept_paths = 65'536;    // of groups that may be gone
constexpr std::chrono::seconds between_walks{1};  // a walk takes milliseconds
constexpr std::size_t mount_table_bytes = 4U << 20;

/// Field `index` of a line, from 0.
std::string_view field(std::string_view line, std::size_t index) {
  for (; index > 0; --index) {
    const std::size_t space = line.find(' ');
    if (space == line.npos) return {};
    line.remove_prefix(space + 1);
  }
  return line.substr(0, line.find(' '));
}

template <class Visit>
void each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

/// Where the unified hierarchy is mounted (proc_pid_mountinfo(5)); empty: nowhere.
std::string unified_mount() {
  const auto table = target::read_file_at(AT_FDCWD, "/proc/self/mountinfo", mount_table_bytes);
  std::string mount;
  if (!table) return mount;
  each_line(*table, [&](std::string_view line) {
    const std::size_t types = line.find(" - ");
    if (types == line.npos || field(line.substr(types + 3), 0) != "cgroup2") return;
    // Of several the one that shows most.
    if (mount.empty() || field(line, 3) == "/") mount = field(line, 4);
  });
  return mount;
}

}  // namespace

std::string cgroup_path(std::string_view text) {
  std::string first;
  std::string unified;
  each_line(text, [&](std::string_view line) {
    const std::size_t colon = line.find(':');
    const std::size_t second = colon == line.npos ? line.npos : line.find(':', colon + 1);
    if (second == line.npos) return;
    const std::string_view path = line.substr(second + 1);
    if (line.starts_with("0::")) unified = path;
    if (first.empty()) first = path;
  });
  return unified.empty() ? first : unified;
}

CgroupNames::CgroupNames() : mount_(unified_mount()) {}

bool CgroupNames::is_at(const std::string& path, std::uint64_t id) const {
  struct stat its {};
  return ::stat((mount_ + path).c_str(), &its) == 0 && its.st_ino == id;
}

/// Null: it is gone, or not visible here.
const std::string* CgroupNames::find(std::uint64_t id) {
  if (const auto known = paths_.find(id); known != paths_.end()) return &known->second;
  const auto now = CgroupClock::now();
  if (mount_.empty() || (walked_ && now - *walked_ < between_walks)) return nullptr;
  walked_ = now;
  if (paths_.size() >= max_kept_paths) paths_.clear();
  const auto take = [&](const std::string& directory) {
    struct stat its {};
    if (::stat(directory.c_str(), &its) != 0) return;
    const std::string path = directory.substr(mount_.size());
    paths_.emplace(its.st_ino, path.empty() ? "/" : path);
  };
  take(mount_);
  std::error_code error;
  std::size_t seen = 0;
  using Walk = std::filesystem::recursive_directory_iterator;
  for (Walk at(mount_, std::filesystem::directory_options::skip_permission_denied, error);
       !error && at != Walk() && seen < max_directories; at.increment(error)) {
    std::error_code ignored;
    if (!at->is_directory(ignored)) continue;
    ++seen;
    take(at->path().string());
  }
  const auto found = paths_.find(id);
  return found == paths_.end() ? nullptr : &found->second;
}

Cgroup CgroupNames::of(std::uint64_t id, pid_t pid) {
  Cgroup cgroup{id, {}, {}};
  std::string text;
  if (pid > 0)
    if (auto read = target::read_file_at(AT_FDCWD, fmt::format("/proc/{}/cgroup", pid),
                                         target::proc_file_bytes))
      text = std::move(*read);
  const std::string path = cgroup_path(text);
  if (!path.empty() && (mount_.empty() || is_at(path, id))) {
    cgroup.path = path;
    if (paths_.size() < max_kept_paths) paths_.emplace(id, path);
    cgroup.container = container_id(path);
    if (cgroup.container.empty()) cgroup.container = container_id(text);
    return cgroup;
  }
  const std::string* found = find(id);
  cgroup.path = found != nullptr ? *found : std::to_string(id);
  cgroup.container = container_id(cgroup.path);
  return cgroup;
}

}  // namespace vitrine::observe
