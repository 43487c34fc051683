// NamedFile: an executable file whose functions are asked for by address, again and again. A worker
// looks them up; one that the file was too much for has found none.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>

#include "elf/file.hpp"
#include "elf/functions.hpp"
#include "file/file_memory.hpp"
#include "symbol/debug_places.hpp"

namespace vitrine::observe {

class NamedFile {
 public:
  explicit NamedFile(std::unique_ptr<file::FileMemory> file) : file_(std::move(file)) {}

  /// The file's own address of the code at an offset into it; nothing: no segment holds it.
  std::optional<Address> address_of(std::uint64_t offset);

  /// The function around each of the file's addresses, demangled; one with an empty name where
  /// there is none. Looks into the debug file for those that the file itself does not name.
  /// `places`: where to look for that.
  std::vector<elf::NamedFunction> functions(std::span<const Address> addresses,
                                            const symbol::DebugPlaces& places);

 private:
  void look_up(const std::vector<Address>& addresses, const symbol::DebugPlaces& places);

  std::unique_ptr<file::FileMemory> file_;
  bool looked_ = false;
  std::vector<elf::Segment> code_;  // of an ELF file: what is executed
  std::unordered_map<Address, elf::NamedFunction> known_;
};

}  // namespace vitrine::observe
