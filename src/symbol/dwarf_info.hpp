// DwarfInfo: what the debug information of a file says of an address. Units are read when an address of
// theirs is first asked for.
#pragma once

#include <elfutils/libdw.h>

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/file_descriptor.hpp"
#include "elf/file.hpp"
#include "symbol/dwarf_unit.hpp"

namespace vitrine::symbol {

class DwarfInfo {
 public:
  /// Of the file behind a descriptor, which stays open as long. Errors: not_found (it has none),
  /// malformed.
  static Result<std::unique_ptr<DwarfInfo>> open(int descriptor, const elf::File& elf);

  /// See DwarfUnit::find; empty where no unit is.
  Frames find(Address address, std::size_t depth);

  /// Why less is known than there could be; empty: nothing is missing.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  struct EndElf {
    void operator()(Elf* elf) const { elf_end(elf); }
  };
  struct EndDwarf {
    void operator()(::Dwarf* dwarf) const { dwarf_end(dwarf); }
  };

  DwarfInfo(Elf* elf, ::Dwarf* dwarf, const elf::File& headers);
  void take_shared();
  void add_units();
  void add_from_aranges();
  void add(Address start, Address end, std::uint32_t unit);
  DwarfUnit& unit(std::uint32_t index);

  std::unique_ptr<Elf, EndElf> elf_;
  FileDescriptor shared_file_;
  std::unique_ptr<::Dwarf, EndDwarf> shared_;  ///< what dwz moved out of this and other files
  std::unique_ptr<::Dwarf, EndDwarf> dwarf_;
  struct Code {
    Address start = 0, end = 0;
  };
  std::vector<Code> code_;       ///< sections of it
  std::vector<Dwarf_Die> tops_;  ///< of units
  Intervals ranges_;             ///< indexes of tops_
  std::unordered_map<std::uint32_t, DwarfUnit> units_;
  std::size_t size_ = 0;  ///< of units_, together
  std::string problem_;
};

}  // namespace vitrine::symbol
