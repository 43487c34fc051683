// Whether this build and this kernel can run vitrine's BPF programs at all.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

namespace vitrine::bpf {

inline constexpr const char* kernel_btf = "/sys/kernel/btf/vmlinux";

/// Else nothing is known of the kernel's types: a container may have no /sys.
inline bool sysfs_is_mounted() {
  return ::access("/sys/kernel", F_OK) == 0;
}

/// False when this vitrine was built without clang, bpftool or libbpf.
bool built_in();

/// Whether the running kernel, by its own description, has a structure of this name. False, too,
/// when it does not describe its types.
bool kernel_has_struct(const char* name);

/// The same of a function.
bool kernel_has_function(const char* name);

/// BPF, perf events and uprobes require capabilities in the initial user namespace: those of another, such
/// as that of a rootless container, do not count.
inline bool in_initial_user_namespace() {
  constexpr ino_t initial = 0xeffffffd;  // PROC_USER_INIT_INO of the kernel
  struct stat status {};
  return ::stat("/proc/self/ns/user", &status) != 0 || status.st_ino == initial;
}

}  // namespace vitrine::bpf
