// Arguments of probes: text as a compiler printed it, to an operand that can be evaluated
// (docs/formats/sdt.md, "Argument list").
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "base/memory.hpp"
#include "probe/operand.h"
#include "probe/probe.hpp"

namespace vitrine::probe {

struct ArgumentError {
  enum class Kind : std::uint8_t {
    syntax,      ///< not in the grammar
    unresolved,  ///< understood, but a symbol has no address that can be known
    unsupported  ///< understood, but not evaluated by us
  };
  Kind kind = Kind::syntax;
  std::string message;
};
std::string_view name(ArgumentError::Kind kind);  ///< as JSON has it

/// What symbols in operands stand for, in the file's own address space.
class OperandSymbols {
 public:
  virtual ~OperandSymbols() = default;
  virtual tl::expected<Address, ArgumentError> address(std::string_view name) = 0;
  /// The word that holds the run-time address of `name` (GOTPCREL).
  virtual tl::expected<Address, ArgumentError> got_slot(std::string_view name) = 0;
  /// Of a thread-local variable, from the thread pointer.
  virtual tl::expected<std::int64_t, ArgumentError> thread_offset(std::string_view name) = 0;
};

/// Splits a site's argument list. Never fails: text that is invalid becomes an argument that
/// does not compile, and does not move those after it.
std::vector<std::string> split_arguments(std::string_view text);

/// Compiles one argument of a site at `address`. `symbols` may be null: then every symbol is
/// unresolved. "? why" is an argument of which it is known that it cannot be had, and why
/// (types.hpp): unsupported.
tl::expected<vitrine_operand, ArgumentError> compile_argument(std::string_view text,
                                                              Machine machine, Address address,
                                                              OperandSymbols* symbols);

}  // namespace vitrine::probe
