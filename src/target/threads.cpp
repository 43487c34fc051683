#include "target/threads.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "base/limits.hpp"
#include "target/proc_file.hpp"

namespace vitrine::target {
namespace {

constexpr std::size_t stat_bytes = 4096;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

tl::unexpected<Error> cannot_list(int error) {
  if (code_of_errno(error) == ErrorCode::not_found)
    return fail(ErrorCode::not_found, "the process has ended");
  return fail(code_of_errno(error),
              fmt::format("cannot list its threads: {}", std::strerror(error)));
}

/// 0: the entry is not a thread's.
pid_t tid_of(const char* name) {
  pid_t tid = 0;
  const char* end = name + std::strlen(name);
  return std::from_chars(name, end, tid).ptr == end ? tid : 0;
}

}  // namespace

Result<std::vector<pid_t>> thread_ids(int proc_dir) {
  const int fd = ::openat(proc_dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::unique_ptr<DIR, CloseDirectory> directory(fd < 0 ? nullptr : ::fdopendir(fd));
  if (!directory) {
    const int error = errno;
    if (fd >= 0) ::close(fd);
    return cannot_list(error);
  }
  std::vector<pid_t> tids;
  while (const dirent* entry = ::readdir(directory.get())) {
    const pid_t tid = tid_of(entry->d_name);
    if (tid == 0) continue;
    if (tids.size() == limits::threads)
      return fail(ErrorCode::limit, "the process has too many threads");
    tids.push_back(tid);
  }
  if (tids.empty()) return fail(ErrorCode::not_found, "the process has ended");
  std::sort(tids.begin(), tids.end());
  return tids;
}

namespace {

Result<Stat> stat_of(int proc_dir, pid_t tid) {
  return read_blocking_at(proc_dir, "task/" + std::to_string(tid) + "/stat", stat_bytes)
      .and_then([](const std::string& line) { return parse_stat(line); });
}

Thread thread_of(pid_t tid, Stat stat) {
  return {{tid, stat.start_time}, std::move(stat.comm), stat.state};
}

/// A worker of the kernel in a process (io_uring's): it has the process's memory, and the thread pointer of the thread
/// that made it, but runs no user code.
bool is_worker_of_the_kernel(const Stat& stat) {
  return (stat.flags & (0x10 | 0x4000)) != 0;  // PF_IO_WORKER, PF_USER_WORKER (6.4)
}

}  // namespace

Result<Thread> thread(int proc_dir, pid_t tid) {
  return stat_of(proc_dir, tid).map([&](Stat stat) { return thread_of(tid, std::move(stat)); });
}

/// By a file that is read without locks of the process (proc_file.hpp), as this is asked all the time.
bool has_no_main_thread(pid_t pid) {
  const auto status = read_file_at(AT_FDCWD, fmt::format("/proc/{}/status", pid), proc_file_bytes);
  if (!status) return false;
  const auto state = status_field(*status, "State");
  const auto threads = status_field(*status, "Threads");
  const bool has_ended = state && (state->starts_with('Z') || state->starts_with('X'));
  return has_ended && threads && std::strtoul(std::string(*threads).c_str(), nullptr, 10) > 1;
}

Result<std::vector<Thread>> threads(int proc_dir) {
  auto tids = TRY(thread_ids(proc_dir));
  std::vector<Thread> found;
  found.reserve(tids.size());
  for (const pid_t tid : tids) {
    auto one = stat_of(proc_dir, tid);
    if (one && !is_worker_of_the_kernel(*one)) {
      Thread thread = thread_of(tid, std::move(*one));
      if (!thread.ended()) found.push_back(std::move(thread));
    }
    if (!one && (one.error().code == ErrorCode::failed || one.error().code == ErrorCode::limit))
      return tl::unexpected(std::move(one.error()));
  }
  return found;
}

Result<pid_t> live_thread(int proc_dir) {
  const FileDescriptor directory(::openat(proc_dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return cannot_list(errno);
  // The leader comes first, and mostly lives: of a process of 10,000 threads the kernel takes ten milliseconds to list all.
  constexpr std::size_t few = 512;
  alignas(dirent64) std::array<char, few> entries;
  bool has_threads = false;
  for (;;) {
    const ssize_t length = ::getdents64(directory.get(), entries.data(), entries.size());
    if (length < 0) return cannot_list(errno);
    if (length == 0)
      return fail(ErrorCode::not_found,
                  has_threads ? "all threads of the process have ended" : "the process has ended");
    for (ssize_t at = 0; at < length;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(entries.data() + at);
      at += entry->d_reclen;
      const pid_t tid = tid_of(entry->d_name);
      if (tid == 0) continue;
      has_threads = true;
      auto one = thread(proc_dir, tid);
      if (one && !one->ended()) return tid;
      if (!one && (one.error().code == ErrorCode::failed || one.error().code == ErrorCode::limit))
        return tl::unexpected(std::move(one.error()));
    }
  }
}

bool is_live(int proc_dir, pid_t tid) {
  const auto one = thread(proc_dir, tid);
  return one && !one->ended();
}

bool is_still(int proc_dir, ThreadId id) {
  constexpr std::uint64_t exiting = 0x4;  // PF_EXITING
  const auto stat = stat_of(proc_dir, id.tid);
  return stat && stat->start_time == id.start_time && (stat->flags & exiting) == 0 &&
         !thread_of(id.tid, *stat).ended();
}

namespace {

/// Keeping files open halves the cost of a proof, but the descriptors are the embedding program's.
constexpr std::size_t share_of_descriptors = 4;

std::size_t descriptor_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<std::size_t>(limit.rlim_cur) : 0;
}

/// "12345 678 9": time on a CPU, time waiting for one, and how often it got one.
std::optional<std::uint64_t> runs_of(int schedstat) {
  char text[128];
  const ssize_t length = ::pread(schedstat, text, sizeof text, 0);
  if (length <= 0) return std::nullopt;
  std::string_view line(text, static_cast<std::size_t>(length));
  while (!line.empty() && line.back() == '\n') line.remove_suffix(1);
  const std::size_t space = line.rfind(' ');
  if (space == std::string_view::npos) return std::nullopt;
  std::uint64_t runs = 0;
  const char* end = line.data() + line.size();
  if (std::from_chars(line.data() + space + 1, end, runs).ptr != end) return std::nullopt;
  return runs;
}

/// "running", or the number of a system call and its arguments. Not counted as blocked: a thread in
/// the call that ends a thread, whose memory may be another thread's already.
bool is_blocked(int proc_dir, pid_t tid) {
  constexpr std::size_t some = 16;
  const auto text = read_blocking_at(proc_dir, fmt::format("task/{}/syscall", tid), some);
  if (!text || text->empty() || text->front() == 'r') return false;
  return std::strtol(text->c_str(), nullptr, 10) != SYS_exit;
}

}  // namespace

RestWatch::RestWatch(int proc_dir)
    : proc_dir_(proc_dir), max_kept_(descriptor_limit() / share_of_descriptors) {}

std::optional<std::uint64_t> RestWatch::runs(pid_t tid) {
  if (const auto kept = files_.find(tid); kept != files_.end()) {
    if (auto count = runs_of(kept->second.get())) return count;
    files_.erase(kept);  // of a thread that had this tid before
  }
  auto opened = open_at(proc_dir_, fmt::format("task/{}/schedstat", tid), O_RDONLY);
  if (!opened) return std::nullopt;
  const auto count = runs_of(opened->get());
  if (files_.size() < max_kept_) files_.emplace(tid, std::move(*opened));
  return count;
}

std::optional<std::uint64_t> RestWatch::begin(pid_t tid) {
  const auto count = runs(tid);
  return count && is_blocked(proc_dir_, tid) ? count : std::nullopt;
}

bool RestWatch::still_rests(pid_t tid, std::uint64_t since) {
  return runs(tid) == since;
}

}  // namespace vitrine::target
