// NamedFile: an executable file whose functions are asked for by address, again and again.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>

#include "elf/functions.hpp"
#include "file/file_memory.hpp"
#include "symbol/debug_file.hpp"

namespace vitrine::observe {

class NamedFile {
 public:
  explicit NamedFile(std::unique_ptr<file::FileMemory> file) : file_(std::move(file)) {}

  /// The file's own address of the code at an offset into it; nothing: no segment holds it.
  std::optional<Address> address_of(std::uint64_t offset);

  /// The function around each of the file's addresses, demangled; one with an empty name where
  /// there is none. Looks into the debug file for those that the file itself does not name.
  /// `places`: where to look for that; it is looked for once.
  std::vector<elf::NamedFunction> functions(std::span<const Address> addresses,
                                            const symbol::DebugPlaces& places);

 private:
  bool parse();
  void look_up(std::span<const Address> addresses, const symbol::DebugPlaces& places);

  std::unique_ptr<file::FileMemory> file_;
  elf::File elf_;
  bool parsed_ = false, is_elf_ = false;
  bool looked_for_debug_ = false;
  std::unique_ptr<symbol::DebugFile> debug_;
  std::unordered_map<Address, elf::NamedFunction> known_;
};

}  // namespace vitrine::observe
