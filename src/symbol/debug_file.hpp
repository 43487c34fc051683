// Separate debug files: where they are looked for, and which one belongs to a file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/pack.hpp"
#include "elf/file.hpp"
#include "sandbox/files.hpp"
#include "sandbox/worker.hpp"

namespace vitrine::symbol {

// Where separate debug files are looked for: what a worker knows of it, and what it is given.

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
  std::vector<int> roots;  ///< descriptors of root directories, in order; none: vitrine's alone
  std::string path;        ///< of the file that runs, as those roots have it

  [[nodiscard]] DebugSearch search() const;

  /// Where is looked: what is found in these places is believed for files of these places alone.
  using Key = std::pair<std::vector<sandbox::PlaceIdentity>, std::string>;
  [[nodiscard]] Key key() const;

  /// Opens what a worker asks for: ELF files alone, so that it learns nothing about others. A
  /// relative path is taken from where the file itself is. Must not outlive this.
  [[nodiscard]] sandbox::Open open() const;
};

// Separate debug files: what was split off a program when it was installed.

struct DebugFile {
  std::unique_ptr<sandbox::FileMemory> memory;
  elf::File elf;
};

/// The debug file of `elf`: by build id below /usr/lib/debug, else by .gnu_debuglink beside it, in
/// .debug, and below /usr/lib/debug. It must have the same build id or, where there is none, the
/// checksum that the link names. Null: there is none. In a worker: files are asked for.
std::unique_ptr<DebugFile> find_debug_file(Memory& file, const elf::File& elf,
                                           const std::string& build_id, const DebugSearch& search);

}  // namespace vitrine::symbol
