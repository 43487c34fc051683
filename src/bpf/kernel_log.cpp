#include "bpf/kernel_log.hpp"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bpf/availability.hpp"

namespace vitrine::bpf {
namespace {

thread_local KernelLog* listening = nullptr;

int collect(libbpf_print_level level, const char* format, va_list arguments) {
  if (level == LIBBPF_DEBUG || listening == nullptr) return 0;
  char line[1024];
  const int length = std::vsnprintf(line, sizeof line, format, arguments);
  listening->add(line);
  return length;
}

/// The last line that tells more than "failed".
std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return {};
  const std::size_t begin = text.rfind('\n', end);
  std::string line = text.substr(begin == std::string::npos ? 0 : begin + 1,
                                 end - (begin == std::string::npos ? 0 : begin + 1) + 1);
  return " (" + line + ")";
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
  if (error == EPERM || error == EACCES)
    return {ErrorCode::not_permitted,
            fmt::format("not permitted to {}: {}", doing, std::strerror(error)),
            "give vitrine CAP_BPF and CAP_PERFMON (run it as root, or: setcap "
            "cap_bpf,cap_perfmon+ep vitrine)"};
  const bool lacking = error == EINVAL || error == EOPNOTSUPP || error == E2BIG || error == ENOSYS;
  return {lacking ? ErrorCode::unsupported : ErrorCode::failed,
          fmt::format("cannot {}: {}{}", doing, std::strerror(error), last_line(text_)),
          lacking ? "this needs Linux 6.1 or later" : ""};
}

Result<void> require_btf() {
  if (::access(kernel_btf, R_OK) == 0) return {};
  return fail(ErrorCode::unsupported,
              fmt::format("this kernel does not describe its types: no {}", kernel_btf),
              "run a kernel built with CONFIG_DEBUG_INFO_BTF");
}

bool built_in() {
  return true;
}

bool kernel_has_struct(const char* name) {
  const KernelLog log;
  btf* types = btf__load_vmlinux_btf();
  const bool has = types != nullptr && btf__find_by_name_kind(types, name, BTF_KIND_STRUCT) > 0;
  btf__free(types);
  return has;
}

}  // namespace vitrine::bpf
