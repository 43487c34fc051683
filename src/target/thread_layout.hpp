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
  std::optional<Glibc> glibc;
  /// Modules with thread-local storage. A thread structure of musl whose DTV knows fewer of them is
  /// one that musl used while it was starting and then left behind.
  std::uint64_t tls_modules = 0;
};

/// `glibc`: null when the process has none.
ThreadLayout thread_layout(std::span<const Module> modules, const Glibc* glibc);

}  // namespace vitrine::target
