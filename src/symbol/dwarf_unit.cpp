#include "symbol/dwarf_unit.hpp"

#include <dwarf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <initializer_list>

#include "base/limits.hpp"

namespace vitrine::symbol {
namespace {

/// Entries that functions with code of their own are looked for in; types too, as that is where gcc
/// describes lambdas and the functions of local classes.
bool may_hold_functions(int tag) {
  switch (tag) {
    case DW_TAG_subprogram:
    case DW_TAG_inlined_subroutine:
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
    case DW_TAG_namespace:
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
    case DW_TAG_module:
    case DW_TAG_entry_point:
      return true;
    default:
      return false;
  }
}

std::uint32_t number_of(Dwarf_Die& die, unsigned attribute) {
  Dwarf_Attribute found;
  Dwarf_Word value = 0;
  if (dwarf_attr_integrate(&die, attribute, &found) == nullptr ||
      dwarf_formudata(&found, &value) != 0 || value > UINT32_MAX)
    return 0;
  return static_cast<std::uint32_t>(value);
}

const char* name_of(Dwarf_Die& die) {
  for (const unsigned attribute : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name}) {
    Dwarf_Attribute found;
    if (dwarf_attr_integrate(&die, attribute, &found) == nullptr) continue;
    if (const char* name = dwarf_formstring(&found); name != nullptr && *name != '\0') return name;
  }
  return nullptr;
}

std::string text_of(Dwarf_Die& unit, std::initializer_list<unsigned> attributes) {
  for (const unsigned attribute : attributes) {
    Dwarf_Attribute found;
    if (dwarf_attr(&unit, attribute, &found) == nullptr) continue;
    if (const char* text = dwarf_formstring(&found)) return text;
  }
  return {};
}

std::uint64_t bytes_of(Dwarf_Die& unit) {
  const Dwarf_Off start = dwarf_dieoffset(&unit) - dwarf_cuoffset(&unit);
  Dwarf_Off next = 0;
  std::size_t header = 0;
  if (dwarf_nextcu(dwarf_cu_getdwarf(unit.cu), start, &next, &header, nullptr, nullptr, nullptr) !=
      0)
    return 1;
  return next - start;
}

}  // namespace

DwarfUnit::DwarfUnit(Dwarf_Die unit) : lines_(unit), tree_(unit) {
  std::uint8_t kind = 0;
  Dwarf_Die split = {};
  if (dwarf_cu_info(unit.cu, nullptr, &kind, nullptr, &split, nullptr, nullptr, nullptr) != 0)
    return;
  if (kind == DW_UT_skeleton) {
    if (split.cu != nullptr)
      tree_ = split;
    else
      problem_ = fmt::format("its split debug information {} was not found",
                             text_of(unit, {DW_AT_dwo_name, DW_AT_GNU_dwo_name}));
  }
  directory_ = text_of(unit, {DW_AT_comp_dir});
  walk(tree_);
  ranges_.build();
}

/// Depth first, without recursion: files decide how deep.
void DwarfUnit::walk(const Dwarf_Die& top) {
  struct Level {
    Dwarf_Die die;                ///< that is being looked at
    std::uint32_t parent = none;  ///< the function around it
  };
  std::vector<Level> levels(1);
  Dwarf_Die whole = top;
  if (dwarf_child(&whole, &levels.back().die) != 0) return;
  // An entry has at least a byte: whoever takes more steps is being led in a circle.
  for (std::uint64_t left = bytes_of(whole); !levels.empty(); --left) {
    if (left == 0) {
      problem_ = "its debug information has a reference cycle";
      return;
    }
    Level& level = levels.back();
    const int tag = dwarf_tag(&level.die);
    if (may_hold_functions(tag)) {
      std::uint32_t parent = level.parent;
      if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine)
        parent = add(level.die, tag == DW_TAG_subprogram ? none : parent, levels.size());
      Level inner{{}, parent};
      // An abstract instance describes what is inlined elsewhere: it has no code.
      if (levels.size() < limits::dwarf_depth && functions_.size() < limits::dwarf_functions &&
          dwarf_child(&level.die, &inner.die) == 0) {
        levels.push_back(inner);
        continue;
      }
    }
    while (!levels.empty() && dwarf_siblingof(&levels.back().die, &levels.back().die) != 0)
      levels.pop_back();
  }
}

/// The index of a function with code; of one without, that around it.
std::uint32_t DwarfUnit::add(Dwarf_Die& die, std::uint32_t parent, std::size_t depth) {
  const auto index = static_cast<std::uint32_t>(functions_.size());
  bool has_code = false;
  Dwarf_Addr base = 0, start = 0, end = 0;
  for (std::ptrdiff_t at = 0; (at = dwarf_ranges(&die, at, &base, &start, &end)) > 0;) {
    if (ranges_.size() >= limits::dwarf_ranges) break;
    ranges_.add(start, end, index, depth);
    has_code = true;
  }
  if (!has_code) return parent;
  functions_.push_back({die, parent, dwarf_tag(&die) == DW_TAG_inlined_subroutine});
  return index;
}

Frames DwarfUnit::find(Address address, std::size_t depth) {
  Frames frames(1);
  set_line(address, frames.back());
  auto found = ranges_.find(address);
  if (!found) {
    if (frames.back().line == 0) frames.clear();
    return frames;
  }
  for (std::uint32_t at = *found;;) {
    Function& function = functions_[at];
    Frame& frame = frames.back();
    if (const char* name = name_of(function.die)) frame.name = name;
    frame.start_line = number_of(function.die, DW_AT_decl_line);
    if (function.parent == none || !function.inlined) return frames;
    at = function.parent;
    Frame caller;
    set_call_site(function.die, caller);
    if (frames.size() >= depth)
      frames.back() = std::move(caller);
    else
      frames.push_back(std::move(caller));
  }
}

void DwarfUnit::set_line(Address address, Frame& frame) {
  Dwarf_Lines* lines = nullptr;
  std::size_t count = 0;
  if (dwarf_getsrclines(&lines_, &lines, &count) != 0) {
    if (problem_.empty() && dwarf_hasattr(&lines_, DW_AT_stmt_list) != 0)
      problem_ = fmt::format("its source lines cannot be read: {}", dwarf_errmsg(-1));
    return;
  }
  // The last line that begins at or before the address; libdw has them in order.
  std::size_t low = 0, high = count;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    Dwarf_Addr start = 0;
    dwarf_lineaddr(dwarf_onesrcline(lines, middle), &start);
    (start <= address ? low : high) = start <= address ? middle + 1 : middle;
  }
  if (low == 0) return;
  Dwarf_Line* line = dwarf_onesrcline(lines, low - 1);
  bool is_end = true;
  if (dwarf_lineendsequence(line, &is_end) != 0 || is_end) return;
  if (const char* file = dwarf_linesrc(line, nullptr, nullptr)) frame.file = full_path(file);
  int number = 0;
  if (dwarf_lineno(line, &number) == 0 && number > 0)
    frame.line = static_cast<std::uint32_t>(number);
}

/// As it would be without links: "build/../src/a.c" says less than "src/a.c".
std::string DwarfUnit::full_path(const char* path) const {
  if (*path == '/' && std::strstr(path, "/.") == nullptr) return path;
  return (std::filesystem::path(directory_) / path).lexically_normal().string();
}

void DwarfUnit::set_call_site(Dwarf_Die& inlined, Frame& caller) {
  caller.line = number_of(inlined, DW_AT_call_line);
  Dwarf_Attribute found;
  Dwarf_Word index = 0;
  if (dwarf_attr(&inlined, DW_AT_call_file, &found) == nullptr ||
      dwarf_formudata(&found, &index) != 0)
    return;
  Dwarf_Files* files = nullptr;
  std::size_t count = 0;
  if (dwarf_getsrcfiles(&tree_, &files, &count) != 0 || index >= count) return;
  if (const char* file = dwarf_filesrc(files, index, nullptr, nullptr))
    caller.file = full_path(file);
}

}  // namespace vitrine::symbol
