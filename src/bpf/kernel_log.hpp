// Messages of libbpf as errors, and where code of the kernel is.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace vitrine::bpf {

// What libbpf prints while it works, turned into errors instead of lines on standard error.

/// Collects libbpf's warnings of this thread while it lives. libbpf has one print function for the
/// whole process: the first KernelLog installs its own, which drops what no KernelLog waits for.
class KernelLog {
 public:
  KernelLog();
  KernelLog(const KernelLog&) = delete;
  KernelLog& operator=(const KernelLog&) = delete;
  ~KernelLog();

  /// The error for "`doing`" after libbpf gave `error` (an errno value, either sign): not_permitted
  /// naming the capabilities, unsupported when the kernel lacks what is asked for, else failed with
  /// libbpf's own last words.
  [[nodiscard]] Error error(const std::string& doing, int error) const;

  void add(const char* text) { text_ += text; }

 private:
  std::string text_;
  KernelLog* outer_;
};

/// How vitrine gets what most of BPF requires.
constexpr const char* grant_bpf =
    "give vitrine CAP_BPF and CAP_PERFMON (run it as root, or: setcap cap_bpf,cap_perfmon+ep "
    "vitrine)";

/// The error for "`doing`" after EPERM or EACCES of BPF, of a perf event or of a uprobe. `needed`: the
/// capabilities (CAP_* of linux/capability.h) that permit it; `remedy`: how vitrine gets them, unless it
/// has them, or has them in vain.
Error not_permitted(std::string_view doing, int error, std::initializer_list<int> needed,
                    std::string remedy);

/// An error unless the global variables of a loaded program (its `bss`) are mapped: libbpf goes on
/// where there is no memory for them. `name` names the program: "the tracer".
inline Result<void> require_variables(const void* bss, std::string_view name) {
  if (bss != nullptr) return {};
  return fail(ErrorCode::failed, "cannot map the variables of " + std::string(name),
              "free some memory");
}

/// CO-RE programs need the running kernel's type information, and readers of per-CPU values the
/// number of its CPUs: after this, libbpf_num_possible_cpus() does not fail. Errors: unsupported,
/// failed.
Result<void> require_kernel();

}  // namespace vitrine::bpf
