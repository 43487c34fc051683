#include "target/rest_watch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace vitrine::target {
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

/// "running", or the number of a system call and its arguments. Not counted as blocked: who is in
/// the call that ends a thread, whose memory may be another thread's already.
bool is_blocked(int syscall) {
  char text[16] = {};
  if (::pread(syscall, text, sizeof text - 1, 0) < 1 || text[0] == 'r') return false;
  return std::strtol(text, nullptr, 10) != SYS_exit;
}

}  // namespace

RestWatch::RestWatch(int proc_dir)
    : proc_dir_(proc_dir), most_kept_(descriptor_limit() / share_of_descriptors / 2) {}

Result<RestWatch::Files> RestWatch::open(pid_t tid) const {
  auto schedstat = TRY(open_at(proc_dir_, fmt::format("task/{}/schedstat", tid), O_RDONLY));
  auto syscall = TRY(open_at(proc_dir_, fmt::format("task/{}/syscall", tid), O_RDONLY));
  return Files{std::move(schedstat), std::move(syscall)};
}

std::optional<std::uint64_t> RestWatch::runs(pid_t tid, Files*& files) {
  if (const auto kept = files_.find(tid); kept != files_.end()) {
    files = &kept->second;
    if (auto count = runs_of(files->schedstat.get())) return count;
    files_.erase(kept);  // of a thread that had this tid before
  }
  auto opened = open(tid);
  if (!opened) return std::nullopt;
  files = files_.size() < most_kept_ ? &files_.emplace(tid, std::move(*opened)).first->second
                                     : &(passing_ = std::move(*opened));
  return runs_of(files->schedstat.get());
}

std::optional<std::uint64_t> RestWatch::begin(pid_t tid) {
  Files* files = nullptr;
  const auto count = runs(tid, files);
  return count && is_blocked(files->syscall.get()) ? count : std::nullopt;
}

bool RestWatch::still_rests(pid_t tid, std::uint64_t since) {
  Files* files = nullptr;
  return runs(tid, files) == since;
}

}  // namespace vitrine::target
