// Which function a place in an object belongs to (docs/formats/object-step.md,
// "Calls and functions").
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "usdt/object_file.hpp"

namespace vitrine::usdt {

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

/// Symbols that we add begin so; they are nobody's function.
inline constexpr std::string_view alias_prefix = "$dtrace";

}  // namespace vitrine::usdt
