// Symbols of an object: functions that contain sites, aliases, and symbols that are appended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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

/// Makes the names of an object unlike those of every other. Reads the whole object, once a new name
/// needs it.
class ObjectKey {
 public:
  /// `salt`: of objects with the same bytes.
  ObjectKey(std::span<const std::byte> bytes, std::string_view salt) : bytes_(bytes), salt_(salt) {}

  std::uint64_t get();

 private:
  std::span<const std::byte> bytes_;
  std::string_view salt_;
  std::optional<std::uint64_t> key_;
};

/// What an earlier run called a function stays its name, if it has that `binding`.
Aliases name_functions(const ObjectFile& object, std::span<const Function> functions,
                       ObjectKey& key, unsigned char binding);

/// The same for sites, which notes refer to: `start` is that of the site, not of its function.
Aliases name_sites(const ObjectFile& object, std::span<const Function> sites, ObjectKey& key,
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
