#include "target/permission.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <optional>

#include "target/proc_file.hpp"

namespace vitrine::target {
namespace {

constexpr const char* yama_path = "/proc/sys/kernel/yama/ptrace_scope";
constexpr const char* grant =
    "give vitrine CAP_SYS_PTRACE (run it as root, or: setcap cap_sys_ptrace+ep vitrine)";

int yama_scope() {
  const auto text = read_file_at(AT_FDCWD, yama_path, 16);
  return text && !text->empty() ? text->front() - '0' : 0;
}

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

}  // namespace vitrine::target
