// Patterns of functions: "func:MODULE:FUNCTION" for the entry, "func:MODULE:FUNCTION:return" for
// the return.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/memory.hpp"
#include "base/result.hpp"

namespace vitrine::probe {

/// MODULE is a path (with a `/`), or the name of a file: "server", "libc.so.6", or "libc" for it.
/// FUNCTION is a name as symbol tables or programmers spell it, or an address in the file. Both may
/// have wildcards of the shell.
struct FunctionPattern {
  std::string text;  ///< as it was written
  std::string module;
  std::string function;            ///< without `:return`
  std::optional<Address> address;  ///< in the file's own address space; then `function` is 0x…
  bool at_return = false;

  /// Whether a file of this path has the name that `module` is, where that is no path.
  [[nodiscard]] bool names_module(std::string_view path) const;
  [[nodiscard]] bool has_module_path() const { return module.find('/') != module.npos; }
};

/// Whether the text is meant as one: "func:" and another colon.
bool is_function_pattern(std::string_view text);

/// Errors: usage.
Result<FunctionPattern> parse_function_pattern(std::string_view text);

/// The pattern of the returns of what a pattern of entries selects.
std::string return_of(std::string_view entry);

/// The name without its `:return`.
std::string entry_of(std::string_view name);

}  // namespace vitrine::probe
