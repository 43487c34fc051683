// Compressed sections of debug information, as libdw gets them.
#pragma once

#include <libelf.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine::symbol {

/// libdw decompresses all sections at once. Those without functions and lines look as if they had been stripped.
void hide_unused_sections(Elf* elf);

/// Of those that libdw reads, one that is compressed still, as it cannot be decompressed; empty: none is.
std::string still_compressed(Elf* elf);

/// Sections compressed by zlib that were inflated here: libelf takes twice the time. Large pages for them take longer
/// than small ones in a virtual machine whose free memory the host has taken back.
///
/// Large sections are inflated as far as they are read: most of what a stack needs of libc is at the beginning of
/// 6 MiB. A page that has not been inflated cannot be read; a handler of SIGSEGV inflates it, and all before it.
class InflatedSections {
 public:
  InflatedSections();
  InflatedSections(InflatedSections&&) noexcept;
  InflatedSections& operator=(InflatedSections&&) noexcept;
  ~InflatedSections();

  /// All of a file that libdw has not begun to read. What is not exactly as its header has it stays as
  /// it is, for libelf to judge. `elf` must end before this does. For one thread at a time.
  explicit InflatedSections(Elf* elf);

  /// So much of a section, and no more, is likely to be read soon.
  void expect(std::string_view section, std::size_t bytes);

  /// A section that turned out to be damaged when more of it was inflated: what was read of it since may be anything.
  /// Empty: there is none.
  [[nodiscard]] std::string broken() const;

  /// Bytes of memory in all that there are, beside those that malloc has given.
  static std::size_t mapped_bytes();

 private:
  struct Free {
    void operator()(void* bytes) const;
  };
  class Growing;
  std::vector<std::unique_ptr<void, Free>> contents_;
  std::vector<std::unique_ptr<Growing>> growing_;
};

}  // namespace vitrine::symbol
