#include "bpf/kernel_log.hpp"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "bpf/availability.hpp"
#include "target/proc_file.hpp"

namespace vitrine::bpf {
namespace {

thread_local KernelLog* listening = nullptr;

constexpr std::size_t kept_of_a_message = 4096;  // its end: the verifier's log ends with its reason

int collect(libbpf_print_level level, const char* format, va_list arguments) {
  if (level == LIBBPF_DEBUG || listening == nullptr) return 0;
  char* message = nullptr;
  const int length = ::vasprintf(&message, format, arguments);
  if (length < 0) return 0;
  const auto bytes = static_cast<std::size_t>(length);
  listening->add(message + (bytes > kept_of_a_message ? bytes - kept_of_a_message : 0));
  std::free(message);
  return length;
}

/// The last line that has more than "failed".
std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return {};
  const std::size_t begin = text.rfind('\n', end);
  std::string line = text.substr(begin == std::string::npos ? 0 : begin + 1,
                                 end - (begin == std::string::npos ? 0 : begin + 1) + 1);
  return " (" + line + ")";
}

/// Why the verifier refuses a program: the line before its statistics, with which its log ends. nullopt:
/// it has not looked at one, or its log has nothing else.
std::optional<std::string> verifier_reason(const std::string& text) {
  const std::size_t statistics = text.rfind("\nprocessed ");
  if (statistics == std::string::npos || statistics == 0) return std::nullopt;
  const std::size_t before = text.rfind('\n', statistics - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  const std::string reason = text.substr(begin, statistics - begin);
  if (reason.find("BEGIN PROG LOAD LOG") != std::string::npos) return std::nullopt;
  return reason;
}

bool kernel_describes(const char* name, __u32 kind) {
  const KernelLog log;
  btf* types = btf__load_vmlinux_btf();
  const bool has = types != nullptr && btf__find_by_name_kind(types, name, kind) > 0;
  btf__free(types);
  return has;
}

}  // namespace

KernelLog::KernelLog() : outer_(listening) {
  listening = this;
  libbpf_set_print(collect);
}

KernelLog::~KernelLog() {
  listening = outer_;
}

Error KernelLog::error(const std::string& doing, int error) const {
  error = std::abs(error);
  // A signal that ends the verifier early leaves a log, too. (Loads block signals, but the kernel has others of its own, as
  // before a suspend.) Of memory that is mapped, EAGAIN means RLIMIT_MEMLOCK.
  if (error == EINTR || (error == EAGAIN && text_.find("load") != std::string::npos))
    return {ErrorCode::interrupted, fmt::format("cannot {}: interrupted by a signal", doing),
            "try again"};
  // The verifier's errno is a refusal, too, but no right would change it.
  if (const auto reason = verifier_reason(text_))
    return {ErrorCode::unsupported,
            fmt::format("cannot {}: the verifier of this kernel rejects the program: {}", doing,
                        *reason),
            "please report this, with the output of uname -r"};
  if (error == EPERM || error == EACCES)
    return not_permitted(doing, error, {CAP_BPF, CAP_PERFMON}, grant_bpf);
  const bool lacking = error == EINVAL || error == EOPNOTSUPP || error == E2BIG || error == ENOSYS;
  return {lacking ? ErrorCode::unsupported : ErrorCode::failed,
          fmt::format("cannot {}: {}{}", doing, std::strerror(error), last_line(text_)),
          lacking           ? "this needs Linux 6.1 or later"
          : error == EMFILE ? "raise the limit of open files (ulimit -n)"
                            : ""};
}

Error not_permitted(std::string_view doing, int error, std::initializer_list<int> needed,
                    std::string remedy) {
  if (!in_initial_user_namespace())
    remedy =
        "capabilities of another namespace do not count: run vitrine in the initial user "
        "namespace, outside the container";
  else if (std::ranges::all_of(needed, target::effective_capability))
    remedy =
        "vitrine has the capabilities: a container's system call filter, or a security module, "
        "forbids it";
  return {ErrorCode::not_permitted,
          fmt::format("not permitted to {}: {}", doing, std::strerror(error)), std::move(remedy)};
}

Result<void> require_kernel() {
  if (::access(kernel_btf, R_OK) != 0 && !sysfs_is_mounted())
    return fail(ErrorCode::unsupported,
                fmt::format("cannot read the kernel's type information ({}): sysfs is not mounted",
                            kernel_btf),
                "mount it: mount -t sysfs sysfs /sys");
  if (::access(kernel_btf, R_OK) != 0)
    return fail(ErrorCode::unsupported,
                fmt::format("this kernel has no type information: no {}", kernel_btf),
                "run a kernel built with CONFIG_DEBUG_INFO_BTF");
  const KernelLog quiet;
  if (const int cpus = libbpf_num_possible_cpus(); cpus < 0)  // libbpf keeps the number
    return fail(ErrorCode::failed,
                fmt::format("cannot read the number of CPUs (/sys/devices/system/cpu/possible): {}",
                            std::strerror(-cpus)));
  return {};
}

bool built_in() {
  return true;
}

bool kernel_has_struct(const char* name) {
  return kernel_describes(name, BTF_KIND_STRUCT);
}

bool kernel_has_function(const char* name) {
  return kernel_describes(name, BTF_KIND_FUNC);
}

}  // namespace vitrine::bpf
