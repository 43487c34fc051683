// Names for the functions with sites that the probe object can refer to
// (docs/formats/object-step.md, "Aliases"): the function may be local, or another module's at run
// time; its alias is neither.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "usdt/containing_function.hpp"
#include "usdt/object_file.hpp"

namespace vitrine::usdt {

struct Aliases {
  std::vector<std::string> names;  ///< one a function
  std::vector<std::size_t> added;  ///< indices of those that the object does not have yet
};

/// `key` makes the names of this object unlike those of every other. What an earlier run called a
/// function stays its name, if it has that `binding`.
Aliases name_functions(const ObjectFile& object, std::span<const Function> functions,
                       std::uint64_t key, unsigned char binding);

}  // namespace vitrine::usdt
