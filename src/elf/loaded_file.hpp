// LoadedFile: a file's bytes at the addresses at which it would be loaded, before any relocation:
// what reads modules in memory (image.hpp, dynamic.hpp, symbols.hpp) can read files too.
#pragma once

#include "elf/file.hpp"
#include "elf/image.hpp"

namespace vitrine::elf {

class LoadedFile final : public Memory {
 public:
  /// Both must outlive this.
  LoadedFile(Memory& file, const File& elf) : file_(file), elf_(elf) {}

  /// What is in memory but not in the file (.bss) is zeros.
  void read(std::span<ReadRequest> requests) override;

  /// The module it would become, at a bias of 0. Errors: unsupported (not 64-bit little-endian, or
  /// another machine: the message says which), limit (program headers).
  [[nodiscard]] Result<Image> image() const;

 private:
  std::size_t copy(Address address, std::span<std::byte> into);

  Memory& file_;
  const File& elf_;
};

}  // namespace vitrine::elf
