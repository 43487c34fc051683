// What the modules of a process tell about how its C library keeps its threads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "target/modules.hpp"

namespace vitrine::target {

class Glibc;

/// All optional: it widens what ThreadPointers can find.
struct ThreadLayout {
  /// glibc on aarch64: where the thread pointer is relative to struct pthread.
  struct Glibc {
    std::uint64_t tid_offset = 0;  ///< of `tid` in struct pthread
    std::uint64_t size = 0;        ///< of struct pthread
  };
  struct Range {
    Address begin = 0;
    Address end = 0;
  };

  std::optional<Glibc> glibc;
  /// musl: writable data of the modules; its main thread's structure usually lies in there.
  std::vector<Range> data;
};

/// `glibc`: null when the process has none.
ThreadLayout thread_layout(std::span<const Module> modules, const Glibc* glibc);

}  // namespace vitrine::target
