// Whether this build and this kernel can run vitrine's BPF programs at all.
#pragma once

namespace vitrine::bpf {

inline constexpr const char* kernel_btf = "/sys/kernel/btf/vmlinux";

/// False when this vitrine was built without clang, bpftool or libbpf.
bool built_in();

/// Whether the running kernel, by its own description, has a structure of this name. False, too,
/// when it does not describe its types.
bool kernel_has_struct(const char* name);

/// The same of a function.
bool kernel_has_function(const char* name);

}  // namespace vitrine::bpf
