// Where separate debug files are looked for: what a worker is told of it, and what it is given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/pack.hpp"
#include "worker/worker.hpp"

namespace vitrine::symbol {

/// What a worker, which opens nothing itself, needs to know.
struct DebugSearch {
  std::string path;         ///< of the file that runs, as the roots have it
  std::uint32_t roots = 1;  ///< in how many to look, in order
};

template <pack::Of<DebugSearch> T>
auto fields(T& search) {
  auto& [path, roots] = search;
  return std::tie(path, roots);
}

struct DebugPlaces {
  std::vector<int> roots;  ///< descriptors of root directories, in order; none: ours alone
  std::string path;        ///< of the file that runs, as those roots have it

  [[nodiscard]] DebugSearch search() const;

  /// Opens what a worker asks for: ELF files alone, so that it can tell nothing about others. A
  /// relative path is taken from where the file itself is. Must not outlive this.
  [[nodiscard]] worker::Open open() const;
};

}  // namespace vitrine::symbol
