#include "target/proc_file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/file_descriptor.hpp"
#include "bpf/wire/wire.h"
#include "target/memory_reader.hpp"

namespace vitrine::target {
namespace {

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> fields;
  while (!text.empty()) {
    const std::size_t end = text.find_first_of(" \n");
    if (end != 0) fields.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return fields;
}

bool number(std::string_view text, std::uint64_t& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<std::string> read_file_at(int dir, const std::string& path, std::size_t limit) {
  const auto file = TRY(open_at(dir, path, O_RDONLY));
  auto content = read_all(file.get(), limit);
  if (!content)
    return fail(code_of_errno(content.error()),
                fmt::format("cannot read {}: {}", path, std::strerror(content.error())));
  return std::move(*content);
}

namespace {

/// Locks are held for microseconds, by an honest process; for longer when it pages.
constexpr auto longest_lock = std::chrono::milliseconds(500),
               min_lock = std::chrono::milliseconds(50);

}  // namespace

MemoryReader::Response ask_proc(const MemoryReader::ProcRequest& request) {
  MemoryReader& reader = MemoryReader::of_this_thread();
  const auto begin = TimeoutBudget::Clock::now();
  const TimeoutBudget::Duration left = reader.budget().left(begin);
  const auto time = std::clamp<TimeoutBudget::Duration>(left, min_lock, longest_lock);
  const auto response = reader.ask(request, time);
  if (response.stalled) reader.budget().spend(TimeoutBudget::Clock::now() - begin);
  return response;
}

tl::unexpected<Error> proc_error(const std::string& path, const MemoryReader::Response& response) {
  if (response.stalled)
    return fail(
        ErrorCode::limit,
        fmt::format("cannot read {}: the kernel withholds it, as the process is blocked while "
                    "it executes another program or changes its memory mappings",
                    path),
        "resume the program or the machine that serves its files, or end the target");
  if (response.error == EAGAIN)
    return fail(ErrorCode::failed,
                fmt::format("cannot read {}: no process can be started to read it", path),
                "allow more processes (RLIMIT_NPROC, pids.max), or more memory");
  return fail(code_of_errno(response.error),
              fmt::format("cannot read {}: {}", path, std::strerror(response.error)));
}

Result<void> read_blocking_at(int dir, const std::string& path,
                              const std::function<bool(std::string_view)>& each) {
  MemoryReader::ProcRequest request{dir, path.c_str(), SharedBuffer::Proc::text, 0};
  const MemoryReader::FileEnd end(MemoryReader::of_this_thread());
  for (;;) {
    const auto response = ask_proc(request);
    if (response.stalled || response.error != 0) return proc_error(path, response);
    const std::string_view piece(reinterpret_cast<const char*>(response.bytes.data()),
                                 response.bytes.size());
    if (!each(piece) || !response.more) return {};
    request.directory = -1;
  }
}

Result<std::string> read_blocking_at(int dir, const std::string& path, std::size_t limit) {
  std::string content;
  TRY(read_blocking_at(dir, path, [&](std::string_view piece) {
    content.append(piece.substr(0, limit - content.size()));
    return content.size() < limit;
  }));
  return content;
}

Result<Stat> parse_stat(std::string_view line) {
  const auto broken = [&] {
    return fail(ErrorCode::malformed, fmt::format("invalid stat line: \"{}\"", line));
  };
  const std::size_t open = line.find('(');
  const std::size_t close = line.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    return broken();
  Stat stat;
  stat.comm = line.substr(open + 1, close - open - 1);
  // proc(5) counts fields from 1 and the state, the first after the comm, is the third.
  const auto fields = split(line.substr(close + 1));
  const auto field = [&](std::size_t n) {
    return n - 3 < fields.size() ? fields[n - 3] : std::string_view();
  };
  if (field(3).size() != 1 || !number(field(9), stat.flags) || !number(field(22), stat.start_time))
    return broken();
  stat.state = field(3)[0];
  number(field(26), stat.code_start);
  number(field(27), stat.code_end);
  number(field(28), stat.stack_start);
  return stat;
}

std::optional<std::string_view> status_field(std::string_view status, std::string_view name) {
  while (!status.empty()) {
    const std::size_t end = status.find('\n');
    std::string_view line = status.substr(0, end);
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ':') {
      line.remove_prefix(name.size() + 1);
      line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
      return line;
    }
    if (end == std::string_view::npos) break;
    status.remove_prefix(end + 1);
  }
  return std::nullopt;
}

namespace {

constexpr const char* yama_path = "/proc/sys/kernel/yama/ptrace_scope";
constexpr const char* grant =
    "give vitrine CAP_SYS_PTRACE (run it as root, or: setcap cap_sys_ptrace+ep vitrine)";

std::optional<uid_t> owner_of(int proc_dir) {
  const auto status = read_file_at(proc_dir, "status", 4096);
  const auto field = status ? status_field(*status, "Uid") : std::nullopt;
  uid_t uid = 0;
  if (!field ||
      std::from_chars(field->data(), field->data() + field->size(), uid).ec != std::errc())
    return std::nullopt;
  return uid;
}

}  // namespace

int yama_scope() {
  const auto text = read_file_at(AT_FDCWD, yama_path, 16);
  return text && !text->empty() ? text->front() - '0' : 0;
}

bool effective_capability(int capability) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  return ::syscall(SYS_capget, &header, data) == 0 &&
         (data[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability)) != 0;
}

Error access_refused(pid_t pid, int proc_dir, const char* doing) {
  Error error{ErrorCode::not_permitted, {}, {}};
  const auto because = [&](const std::string& reason, std::string remedy) {
    error.message = fmt::format("not permitted to {} process {}: {}", doing, pid, reason);
    error.remedy = std::move(remedy);
    return error;
  };
  const int scope = yama_scope();
  const auto owner = owner_of(proc_dir);
  if (scope == 3)
    return because("kernel.yama.ptrace_scope is 3, which forbids it to all users",
                   fmt::format("only a reboot can lower {}", yama_path));
  if (effective_capability(CAP_SYS_PTRACE))
    return because("refused despite CAP_SYS_PTRACE",
                   "a security module forbids it, or the process is in another user namespace: run "
                   "vitrine in that namespace, or in the initial one");
  if (owner && *owner != ::getuid())
    return because(fmt::format("it belongs to uid {}, vitrine runs as uid {}", *owner, ::getuid()),
                   fmt::format("run as uid {}, or {}", *owner, grant));
  if (scope == 2) return because("kernel.yama.ptrace_scope is 2", grant);
  if (scope == 1)
    return because("kernel.yama.ptrace_scope is 1, which allows it for child processes only",
                   fmt::format("{}, or: sysctl kernel.yama.ptrace_scope=0", grant));
  return because(
      "it is not dumpable (setuid, or PR_SET_DUMPABLE), or has more capabilities than vitrine",
      grant);
}

Error hidden_by_proc(pid_t pid) {
  return {ErrorCode::not_permitted,
          fmt::format("not permitted to observe process {}: /proc, which is mounted with hidepid, "
                      "does not show it",
                      pid),
          grant};
}

namespace {

/// The last number of a field of status (of Uid: that of the file system; of NSpid: the innermost),
/// or `otherwise`.
template <class Number>
Number last_number(std::string_view status, std::string_view name, Number otherwise) {
  const auto field = status_field(status, name);
  if (!field) return otherwise;
  const std::string_view line = field->substr(0, field->find('\n'));
  const std::string_view last = line.substr(line.find_last_of(" \t") + 1);
  Number number{};
  const auto [end, error] = std::from_chars(last.data(), last.data() + last.size(), number);
  return error == std::errc() ? number : otherwise;
}

}  // namespace

std::uint64_t program_image(int proc_dir) {
  constexpr std::size_t stat_bytes = 4096;
  const auto line = read_blocking_at(proc_dir, "stat", stat_bytes);
  if (!line) return 0;
  const auto stat = parse_stat(*line);
  if (!stat || stat->stack_start == 0) return 0;
  return vitrine_image_of(stat->code_start, stat->code_end, stat->stack_start);
}

InnerIdentity read_inner_identity(int proc_dir) {
  InnerIdentity found;
  if (const auto status = read_file_at(proc_dir, "status", proc_file_bytes)) {
    found.owner = last_number(*status, "Uid", found.owner);
    found.pid = last_number(*status, "NSpid", found.pid);
  }
  return found;
}

Result<void> require_own_proc() {
  char name[16] = {};
  const ssize_t length = ::readlink("/proc/self", name, sizeof name - 1);
  if (length > 0 && name == std::to_string(::getpid())) return {};
  return fail(ErrorCode::unsupported,
              length > 0
                  ? "/proc is of another PID namespace: its process IDs are not those of this one"
                  : "/proc is not mounted, or is of another PID namespace",
              "mount that of this PID namespace: unshare --mount-proc, nsenter --pid --mount, or "
              "mount -t proc proc /proc");
}

Result<std::vector<pid_t>> all_processes() {
  TRY(require_own_proc());
  struct Close {
    void operator()(DIR* directory) const { ::closedir(directory); }
  };
  const std::unique_ptr<DIR, Close> directory(::opendir("/proc"));
  if (!directory)
    return fail(ErrorCode::failed, fmt::format("cannot read /proc: {}", std::strerror(errno)));
  std::vector<pid_t> pids;
  while (const dirent* entry = ::readdir(directory.get())) {
    pid_t pid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, pid).ptr == end) pids.push_back(pid);
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

}  // namespace vitrine::target
