// DwarfUnit: the functions and source lines of one compilation unit, by address.
//
// libdw's own function for that (dwarf_getscopes) walks the unit's tree for every address, which
// takes milliseconds. Here the tree is walked once; then an address costs two binary searches.
#pragma once

#include <elfutils/libdw.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "symbol/function_symbols.hpp"
#include "symbol/symboliser.hpp"

namespace vitrine::symbol {

/// Of its entries, in .debug_info.
std::uint64_t bytes_of_unit(Dwarf_Die& unit);

class DwarfUnit {
 public:
  /// Walks the tree of a unit; `unit` is its topmost entry, a skeleton's where it was split.
  explicit DwarfUnit(Dwarf_Die unit);

  /// The functions around an address, innermost first, their names as DWARF spells them (in `name`;
  /// linkage names where it has them). Of an address that is in no function: one frame without a
  /// name, if its line is known. `depth`: most frames; what is between is left out.
  Frames find(Address address, std::size_t depth);

  /// The function, not inlined, that an address is in.
  std::optional<Dwarf_Die> function_around(Address address);

  /// Why not all is known of this unit; empty: it is.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] std::size_t size() const {
    return functions_.size() + ranges_.size() + scopes_.size();
  }

 private:
  struct Function {
    Dwarf_Die die = {};
    std::uint32_t parent = none;  ///< of functions_: what it is inlined into
    bool inlined = false;
  };
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  void walk(const Dwarf_Die& top);
  bool needs_scope(Dwarf_Die& die) const;
  std::string name_of(Dwarf_Die& die);
  std::uint32_t add(Dwarf_Die& die, std::uint32_t parent, std::size_t depth);
  void set_line(Address address, Frame& frame);
  void set_call_site(Dwarf_Die& inlined, Frame& caller);
  [[nodiscard]] std::string full_path(const char* path) const;

  Dwarf_Die lines_ = {};  ///< the entry whose line table it is
  Dwarf_Die tree_ = {};   ///< the entry whose functions they are: another one, where it was split
  std::vector<Function> functions_;
  Intervals ranges_;  ///< indexes of functions_
  /// Where functions without a linkage name are declared, by the offset of the declaration.
  std::unordered_map<Dwarf_Off, std::string> scopes_;
  std::string directory_;  ///< in which it was compiled
  std::string problem_;
};

}  // namespace vitrine::symbol
