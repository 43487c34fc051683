// Compressed sections of debug information, as libdw gets them.
#pragma once

#include <libelf.h>

#include <memory>
#include <string>
#include <vector>

namespace vitrine::symbol {

/// libdw decompresses all sections at once. Those without functions and lines look as if they had been stripped.
void hide_unused_sections(Elf* elf);

/// Of those that libdw reads, one that is compressed still, as it cannot be decompressed; empty: none is.
std::string still_compressed(Elf* elf);

/// Sections compressed by zlib that were inflated here: libelf takes twice the time. Large pages for them take longer
/// than small ones in a virtual machine whose free memory the host has taken back.
class InflatedSections {
 public:
  InflatedSections() = default;

  /// All of a file that libdw has not begun to read. What is not exactly as its header has it stays as
  /// it is, for libelf to judge. `elf` must end before this does.
  explicit InflatedSections(Elf* elf);

 private:
  struct Free {
    void operator()(void* bytes) const;
  };
  std::vector<std::unique_ptr<void, Free>> contents_;
};

}  // namespace vitrine::symbol
