// Symbols of an object: functions that contain sites, aliases, and symbols that are appended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "usdt/object_file.hpp"

namespace vitrine::usdt {

// Which function a place in an object belongs to (docs/formats/object-step.md,
// "Calls and functions").

struct Place {
  std::uint32_t section = 0;
  std::uint64_t offset = 0;  ///< in the section

  auto operator<=>(const Place&) const = default;
};

/// A function, or what comes nearest to one in hand-written assembly: a label, a section.
struct Function {
  std::string name;
  Place start;

  auto operator<=>(const Function&) const = default;
};

/// One a place, of which a later one may not come before an earlier one. Of nested functions the
/// innermost, of several at one address the most visible.
std::vector<Function> containing_functions(const ObjectFile& object, std::span<const Place> places);

/// Symbols that we add begin so; they are no functions.
inline constexpr std::string_view alias_prefix = "$dtrace";

// Names for the functions with sites that the probe object can refer to
// (docs/formats/object-step.md, "Aliases"): the function may be local, or another module's at run
// time; its alias is neither.

struct Aliases {
  std::vector<std::string> names;  ///< one a function
  std::vector<std::size_t> added;  ///< indices of those that the object does not have yet
};

/// `key` makes the names of this object unlike those of every other. What an earlier run called a
/// function stays its name, if it has that `binding`.
Aliases name_functions(const ObjectFile& object, std::span<const Function> functions,
                       std::uint64_t key, unsigned char binding);

/// The same for sites, which notes refer to: `start` is that of the site, not of its function.
Aliases name_sites(const ObjectFile& object, std::span<const Function> sites, std::uint64_t key,
                   unsigned char binding);

// Adds symbols to an object without moving anything that was there (docs/formats/object-step.md,
// "Aliases").

struct NewSymbol {
  std::string name;
  Place place;
  unsigned char binding;  ///< STB_GLOBAL, STB_WEAK
};

/// Puts a longer symbol table, with its strings and its table of wide section indices, at the end of
/// `bytes` (a copy of the object's own) and points the section headers to them; the old ones stay
/// behind as unused bytes. The symbols are hidden, without a type or a size, so that
/// disassemblers and profilers go on showing the functions' own names. Errors: limit, unsupported.
Result<void> append_symbols(std::vector<std::byte>& bytes, const ObjectFile& object,
                            std::span<const NewSymbol> symbols);

}  // namespace vitrine::usdt
