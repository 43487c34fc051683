// C types by their spelling: as much of them as tells where a value is and how it is shown.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "probe/probe.hpp"

namespace vitrine::probe {

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

}  // namespace vitrine::probe
