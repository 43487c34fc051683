#include "symbol/dwarf_unit.hpp"

#include <dwarf.h>
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <utility>

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

std::string integrated_text(Dwarf_Die& die, std::initializer_list<unsigned> attributes) {
  for (const unsigned attribute : attributes) {
    Dwarf_Attribute found;
    if (dwarf_attr_integrate(&die, attribute, &found) == nullptr) continue;
    if (const char* text = dwarf_formstring(&found); text != nullptr && *text != '\0') return text;
  }
  return {};
}

std::string linkage_name(Dwarf_Die& die) {
  return integrated_text(die, {DW_AT_linkage_name, DW_AT_MIPS_linkage_name});
}

bool has_linkage_name(Dwarf_Die& die) {
  return dwarf_hasattr_integrate(&die, DW_AT_linkage_name) != 0 ||
         dwarf_hasattr_integrate(&die, DW_AT_MIPS_linkage_name) != 0;
}

/// A lambda, or another type without a name, by the place where it is written: two in one function are
/// called alike else, and would be one in a profile. Empty: its place is not known.
std::string unnamed_type(Dwarf_Die& type) {
  constexpr int max_members = 64;
  const std::uint32_t line = number_of(type, DW_AT_decl_line);
  if (line == 0) return {};
  const char* kind = "unnamed";
  Dwarf_Die member;
  int left = max_members;
  for (bool more = dwarf_child(&type, &member) == 0; more && --left > 0;
       more = dwarf_siblingof(&member, &member) == 0)
    if (dwarf_tag(&member) == DW_TAG_subprogram &&
        integrated_text(member, {DW_AT_name}) == "operator()")
      kind = "lambda";
  const std::uint32_t column = number_of(type, DW_AT_decl_column);
  return column == 0 ? fmt::format("{{{} at {}}}", kind, line)
                     : fmt::format("{{{} at {}:{}}}", kind, line, column);
}

/// What an entry adds to the names of those inside it; empty: nothing.
std::string scope_name(Dwarf_Die& die) {
  std::string name;
  switch (dwarf_tag(&die)) {
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_subprogram:
      return integrated_text(die, {DW_AT_name});
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
      name = integrated_text(die, {DW_AT_name});
      return name.empty() || name.starts_with("<lambda") ? unnamed_type(die) : name;
    default:
      return {};
  }
}

/// The entry that one refers to; nothing: it is on its own.
std::optional<Dwarf_Die> origin_of(Dwarf_Die& die) {
  for (const unsigned attribute : {DW_AT_abstract_origin, DW_AT_specification}) {
    Dwarf_Attribute found;
    Dwarf_Die origin;
    if (dwarf_attr(&die, attribute, &found) != nullptr &&
        dwarf_formref_die(&found, &origin) != nullptr)
      return origin;
  }
  return std::nullopt;
}

std::string text_of(Dwarf_Die& unit, std::initializer_list<unsigned> attributes) {
  for (const unsigned attribute : attributes) {
    Dwarf_Attribute found;
    if (dwarf_attr(&unit, attribute, &found) == nullptr) continue;
    if (const char* text = dwarf_formstring(&found)) return text;
  }
  return {};
}

}  // namespace

std::uint64_t bytes_of_unit(Dwarf_Die& unit) {
  const Dwarf_Off start = dwarf_dieoffset(&unit) - dwarf_cuoffset(&unit);
  Dwarf_Off next = 0;
  std::size_t header = 0;
  if (dwarf_nextcu(dwarf_cu_getdwarf(unit.cu), start, &next, &header, nullptr, nullptr, nullptr) !=
      0)
    return 1;
  return next - start;
}

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
    /// The names around it: "a::b"; nothing: they were not needed so far.
    std::optional<std::string> scope{};
  };
  std::vector<Level> levels(1);
  levels.front().scope.emplace();
  // Of the last level. Each level's is made once at most, as most entries have a linkage name.
  const auto scope = [&]() -> const std::string& {
    auto known = levels.end() - 1;
    while (!known->scope) --known;
    for (; known != levels.end() - 1; ++known) {
      std::string inner = *known->scope;
      if (const std::string name = scope_name(known->die); !name.empty())
        if (inner.size() + name.size() <= limits::dwarf_scope)
          inner += (inner.empty() ? "" : "::") + name;
      (known + 1)->scope = std::move(inner);
    }
    return *known->scope;
  };
  Dwarf_Die whole = top;
  if (dwarf_child(&whole, &levels.back().die) != 0) return;
  // An entry has at least a byte: a reader that takes more steps is being led in a circle.
  for (std::uint64_t left = bytes_of_unit(whole); !levels.empty(); --left) {
    if (left == 0) {
      problem_ = "its debug information has a reference cycle";
      return;
    }
    Level& level = levels.back();
    const int tag = dwarf_tag(&level.die);
    if (may_hold_functions(tag)) {
      std::uint32_t parent = level.parent;
      if (tag == DW_TAG_subprogram && levels.size() > 1 && needs_scope(level.die))
        if (const std::string& around = scope(); !around.empty())
          scopes_.emplace(dwarf_dieoffset(&level.die), around);
      if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine)
        parent = add(level.die, tag == DW_TAG_subprogram ? none : parent, levels.size());
      Level inner{{}, parent};
      // An abstract instance describes what is inlined elsewhere: it has no code.
      if (levels.size() < limits::dwarf_depth && functions_.size() < limits::dwarf_functions &&
          dwarf_child(&level.die, &inner.die) == 0) {
        levels.push_back(std::move(inner));
        continue;
      }
    }
    while (!levels.empty() && dwarf_siblingof(&levels.back().die, &levels.back().die) != 0)
      levels.pop_back();
  }
}

/// Compilers give no linkage name to what has no symbol: members of local classes, and lambdas, of
/// which every one is called "operator()". The names around it distinguish them.
bool DwarfUnit::needs_scope(Dwarf_Die& die) const {
  return scopes_.size() < limits::dwarf_functions && !has_linkage_name(die);
}

std::string DwarfUnit::name_of(Dwarf_Die& die) {
  if (std::string name = linkage_name(die); !name.empty()) return name;
  std::string name = integrated_text(die, {DW_AT_name});
  if (name.empty() || scopes_.empty()) return name;
  // What is inlined refers to what was defined, and that to what was declared. The last has a scope.
  std::string scope;
  std::optional<Dwarf_Die> at = die;
  for (int steps = 0; at && steps < 4; ++steps, at = origin_of(*at))
    if (const auto known = scopes_.find(dwarf_dieoffset(&*at)); known != scopes_.end())
      scope = known->second;
  return scope.empty() ? name : scope + "::" + name;
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
    frame.name = name_of(function.die);
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

std::optional<Dwarf_Die> DwarfUnit::function_around(Address address) {
  const auto found = ranges_.find(address);
  if (!found) return std::nullopt;
  std::uint32_t at = *found;
  while (functions_[at].inlined && functions_[at].parent != none) at = functions_[at].parent;
  if (functions_[at].inlined) return std::nullopt;
  return functions_[at].die;
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

/// As it would be without links: "build/../src/a.c" is less readable than "src/a.c".
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
