// Where a part of the kernel's code is.
#pragma once

#include <cstdint>

namespace vitrine::bpf {

struct KernelText {
  std::uint64_t start = 0;
  std::uint64_t end = 0;  ///< one past the last byte; 0: not known
};

/// The scheduler's, by /proc/kallsyms. Not known where the kernel hides its addresses.
KernelText scheduler_text();

}  // namespace vitrine::bpf
