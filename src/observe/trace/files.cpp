#include "observe/trace/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/text.hpp"
#include "target/proc_file.hpp"

namespace vitrine::observe {

ModuleChoice::ModuleChoice(const std::vector<std::string>& patterns) {
  for (const std::string& text : patterns) {
    Pattern pattern{text, {}, {}};
    std::error_code error;
    if (text.find('/') != text.npos)
      pattern.file = std::filesystem::canonical(text, error).string();
    if (text.starts_with("./") || text.starts_with("../"))
      pattern.whole = std::filesystem::absolute(text, error).lexically_normal().string();
    patterns_.push_back(std::move(pattern));
  }
}

bool ModuleChoice::matches(const Pattern& pattern, const std::string& path) {
  return glob_matches(pattern.text, path) || glob_matches(pattern.text, file_name(path)) ||
         path == pattern.file || (!pattern.whole.empty() && glob_matches(pattern.whole, path));
}

bool ModuleChoice::takes(const std::string& path) {
  bool chosen = patterns_.empty();
  for (Pattern& pattern : patterns_) {
    if (!matches(pattern, path)) continue;
    chosen = pattern.matched = true;
  }
  return chosen;
}

std::vector<std::string> ModuleChoice::absent() const {
  std::vector<std::string> absent;
  for (const Pattern& pattern : patterns_)
    if (!pattern.matched) absent.push_back(pattern.text);
  return absent;
}

std::optional<std::string> processes_with_replaced_file(const ProbeFile& file,
                                                        const std::string& path) {
  constexpr std::size_t named = 5;
  constexpr std::size_t maps_bytes = 4U << 20;
  std::error_code error;
  const std::string whole = std::filesystem::canonical(path, error).string();
  const auto pids = target::all_processes();
  if (error || !pids) return std::nullopt;
  const std::string deleted = whole + " (deleted)";
  std::vector<pid_t> found;
  for (const pid_t pid : *pids) {
    const std::string proc = fmt::format("/proc/{}/", pid);
    const auto directory = target::open_at(AT_FDCWD, proc, O_RDONLY | O_DIRECTORY);
    // The kernel follows the link under the lock that it reads `stat` under.
    if (!directory || !target::read_blocking_at(directory->get(), "stat", target::proc_file_bytes))
      continue;
    const std::string program = std::filesystem::read_symlink(proc + "exe", error).string();
    const bool same_path = program == whole || program == deleted;
    if (const auto its = target::open_at(AT_FDCWD, proc + "exe", O_PATH); same_path && its) {
      const auto place = target::place_identity(its->get());  // asks no server
      if (place.inode != file.file->identity().inode ||
          place.device != file.file->identity().device)
        found.push_back(pid);
      continue;
    }
    const auto maps = target::read_blocking_at(directory->get(), "maps", maps_bytes);
    if (maps && maps->find(' ' + deleted + '\n') != std::string::npos) found.push_back(pid);
  }
  if (found.empty()) return std::nullopt;
  const std::size_t more = found.size() - std::min(found.size(), named);
  found.resize(found.size() - more);
  return fmt::format(
      "process{} {}{} use{} another file of the path {}, which was replaced since: "
      "not traced (trace {} by process ID)",
      found.size() + more == 1 ? "" : "es", fmt::join(found, ", "),
      more == 0 ? std::string() : fmt::format(" and {} more", more),
      found.size() + more == 1 ? "s" : "", whole, found.size() + more == 1 ? "it" : "them");
}

}  // namespace vitrine::observe
