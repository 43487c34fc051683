#include "cli/probe_target.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace vitrine::cli {
namespace {

std::optional<int> as_pid(const std::string& word) {
  int pid = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, pid);
  return error == std::errc() && stop == end && pid > 0 ? std::optional(pid) : std::nullopt;
}

std::optional<std::string> in_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t colon = rest.find(':');
    const std::string file = fmt::format("{}/{}", rest.substr(0, colon), name);
    if (::access(file.c_str(), X_OK) == 0) return file;
    rest.remove_prefix(colon == rest.npos ? rest.size() : colon + 1);
  }
  return std::nullopt;
}

/// Also a link that leads nowhere: what is wrong with it is told when it is opened.
bool is_there(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

}  // namespace

Result<ProbeWords> parse_targets(std::span<const std::string> words) {
  ProbeWords parsed;
  for (const std::string& word : words) {
    if (const auto pid = as_pid(word)) {
      parsed.targets.push_back({*pid, {}});
    } else if (word.find('/') != word.npos || is_there(word)) {
      parsed.targets.push_back({0, word});
    } else if (word.find_first_of(":*?[") != word.npos) {
      parsed.patterns.emplace_back(word);
    } else if (auto program = in_path(word)) {
      parsed.targets.push_back({0, std::move(*program)});
    } else {
      return fail(ErrorCode::not_found,
                  fmt::format("{}: no such file, and no such program in PATH", word),
                  "write a probe as PROVIDER:NAME and a process as its ID");
    }
  }
  if (parsed.targets.empty())
    return fail(ErrorCode::usage, "missing argument: no process or file",
                "give one, for example: vitrine probes 4242 'libc:*'");
  return parsed;
}

}  // namespace vitrine::cli
