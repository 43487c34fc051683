// Functions of a file by name or address, and what DWARF records of their parameters: what a trace of
// functions attaches to.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "base/result.hpp"
#include "sandbox/files.hpp"
#include "symbol/debug_file.hpp"

namespace vitrine::symbol {

enum class ParameterKind : std::uint8_t {
  integer,
  boolean,
  pointer,
  c_string,
  enumeration,
  floating,
  text,      ///< two words: an address and a number of bytes
  aggregate  ///< any other structure, or a number of more than a word
};

struct ParameterEnumerator {
  std::int64_t value = 0;
  std::string name;
};

/// A parameter, or a result, as its debug information describes it, and how the ABI of its machine
/// passes such a value.
struct FunctionParameter {
  std::string name;  ///< empty: it has none
  std::string type;  ///< as a programmer writes it
  ParameterKind kind = ParameterKind::integer;
  std::uint32_t size = 0;  ///< bytes
  bool is_signed = false;
  std::uint8_t words = 1;         ///< integer registers that it takes
  std::uint8_t vectors = 0;       ///< vector registers
  bool in_memory = false;         ///< the value itself is on the stack
  bool is_address = false;        ///< a structure of which the address is passed
  bool is_aligned = false;        ///< to two words
  std::uint8_t address_word = 0;  ///< of a text: which word is the address
  /// By DWARF's numbers, one a word: where it is at the function's first instruction. Empty: DWARF
  /// has no record, and the ABI's order counts.
  std::vector<std::uint8_t> registers;
  std::optional<std::uint64_t> constant{};  ///< nothing is passed: all callers pass this
  bool is_lost = false;                     ///< the compiler has left it out
  std::vector<ParameterEnumerator> enumerators;
};

/// An instruction by which a function is left.
struct FunctionExit {
  Address address = 0;
  bool is_return = true;  ///< else a jump to another function
};

struct FoundFunction {
  Address address = 0;
  std::string name;       ///< as the table spells it; empty: it was found by its address alone
  std::string demangled;  ///< empty: no other name
  std::vector<std::uint32_t> patterns;  ///< indexes of those that match
  bool is_start = true;                 ///< a function begins here, as far as is known
  bool is_ifunc = false;                ///< the resolver of a function that is chosen at load time
  bool is_go = false;
  bool may_throw = false;           ///< exceptions, or Rust's panics, may pass through
  std::vector<FunctionExit> exits;  ///< where asked for, and its return address is to stay
  std::string exits_unknown;        ///< why those cannot be found
  Address unclear_exit = 0;  ///< a jump that is one of them, or none; 0: there is no such jump
  Address loop_jump = 0;     ///< a jump back to its first instruction; 0: none is known
  bool is_described = false;
  std::vector<FunctionParameter> parameters;  ///< where it is described
  std::optional<FunctionParameter> result;    ///< where it is described, unless it is void
};

/// Why a pattern matches nothing in a file that it means.
struct MissingFunction {
  std::uint32_t pattern = 0;
  std::string reason;             ///< empty: there is no such name
  std::vector<std::string> near;  ///< names that are spelt alike
};

struct FunctionListing {
  std::vector<FoundFunction> functions;  ///< by address, each once
  std::uint64_t left_out = 0;            ///< beyond `most`
  std::uint64_t known = 0;               ///< functions of which the file has a name
  std::vector<MissingFunction> missing;
};

struct FunctionQuery {
  std::vector<std::string> names;       ///< globs, or addresses as 0x…
  std::vector<std::uint32_t> exits_of;  ///< indexes of those whose exits are asked for, too
  std::uint64_t most = 0;
};

/// A worker does it. Errors: malformed (no ELF file); failed, limit (the file was more than its
/// parser could stand).
Result<FunctionListing> find_functions(const sandbox::FileMemory& file, const FunctionQuery& query,
                                       const DebugPlaces& places);

/// "shop::Order::charge" of "int shop::Order::charge<int>(double) const": without parameters, and
/// without the type that templates have before. Of a name without parameters, itself.
std::string qualified_name(const std::string& demangled);

}  // namespace vitrine::symbol
