#include "target/threads.hpp"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/limits.hpp"
#include "target/proc_file.hpp"

namespace vitrine::target {
namespace {

constexpr std::size_t stat_bytes = 4096;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

}  // namespace

Result<std::vector<pid_t>> thread_ids(int proc_dir) {
  const int fd = ::openat(proc_dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::unique_ptr<DIR, CloseDirectory> directory(fd < 0 ? nullptr : ::fdopendir(fd));
  if (!directory) return fail(ErrorCode::not_found, "the process has ended");
  std::vector<pid_t> tids;
  while (const dirent* entry = ::readdir(directory.get())) {
    pid_t tid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, tid).ptr != end) continue;
    if (tids.size() == limits::threads)
      return fail(ErrorCode::limit, "the process has too many threads");
    tids.push_back(tid);
  }
  if (tids.empty()) return fail(ErrorCode::not_found, "the process has ended");
  std::sort(tids.begin(), tids.end());
  return tids;
}

Result<Thread> thread(int proc_dir, pid_t tid) {
  return read_file_at(proc_dir, "task/" + std::to_string(tid) + "/stat", stat_bytes)
      .and_then([](const std::string& line) { return parse_stat(line); })
      .map([&](Stat stat) {
        return Thread{{tid, stat.start_time}, std::move(stat.comm), stat.state};
      });
}

Result<std::vector<Thread>> threads(int proc_dir) {
  auto tids = TRY(thread_ids(proc_dir));
  std::vector<Thread> found;
  found.reserve(tids.size());
  for (const pid_t tid : tids)
    if (auto one = thread(proc_dir, tid); one && !one->ended()) found.push_back(std::move(*one));
  return found;
}

Result<pid_t> live_thread(int proc_dir) {
  auto tids = TRY(thread_ids(proc_dir));
  // Ascending is good enough: the leader has the lowest tid but after a wrap of the pid counter.
  for (const pid_t tid : tids)
    if (auto one = thread(proc_dir, tid); one && !one->ended()) return tid;
  return fail(ErrorCode::not_found, "all threads of the process have ended");
}

}  // namespace vitrine::target
