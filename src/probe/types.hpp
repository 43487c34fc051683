// C types of arguments, their names, and where a call has its arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "probe/probe.hpp"

namespace vitrine::probe {

// What things are called that have no name of their own: types of arguments, uses of sites.

/// As its programmer wrote it, where the probe records it; else after what it is and how wide its
/// operand ("-4@%edi") is: "int32", "double", "string".
std::string type_name(const ArgumentType& type, std::string_view operand);

/// How an is-enabled check gets its result: "operand", "register", "pointer"; of a fire: empty.
std::string_view protocol_name(SiteUse use);

// C types by their spelling: as much of them as decides where a value is and how it is shown.

struct CType {
  std::uint8_t size = 0;  ///< bytes of the value; of a long double, those of its format
  bool is_signed = false;
  ValueKind kind = ValueKind::integer;
};

/// The scalar type that `spelling` ("unsigned int", "const char *", "uint64_t", "int (*)(void)")
/// names on a machine: the types of C, and those that its standard headers and those of Unix
/// define alike everywhere. "string" is D's name of a char *. Nullopt: a structure, or a name that
/// only the program's own headers explain.
std::optional<CType> c_type(std::string_view spelling, Machine machine);

/// Whether a machine's pointers have 4 bytes.
bool is_ilp32(Machine machine);

// Where the arguments of a C function are when it is called: by the ABI of a machine, as
// operands of the grammar that arguments of all probes are written in.

/// What an observer sees of a call.
struct ShownCall {
  std::span<const std::string> passed;    ///< types of what the caller passes, in order
  std::span<const std::string> shown;     ///< types of what the observer sees
  std::span<const std::uint8_t> sources;  ///< one a shown argument: which of the passed feeds it
  /// A return address is on the stack (x86): the place is in a function that was called, or at a
  /// jump in its place.
  bool return_address = false;
};

struct CallArguments {
  std::vector<std::string> operands;  ///< one a shown argument, for compile_argument()
  std::vector<ArgumentType> types;    ///< of those whose type is informative
};

/// Of System V x86-64, i386 and AAPCS64. An argument whose place cannot be known, or what it
/// is, has an operand that compile_argument() refuses, with the reason.
CallArguments call_arguments(const ShownCall& call, Machine machine);

}  // namespace vitrine::probe
