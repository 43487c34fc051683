// Encodes DOF: the same providers give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "dof/dof.hpp"

namespace vitrine::dof {

/// Encodes one DOF. Record::word, Semaphore::word are written as they are; their `word_offset` are
/// set to where they landed, for the caller's ELF relocations. The version is the object's own.
/// A record with more sites than one can have is replaced, in `object`, by split(record).
/// Errors: usage (what readers would refuse: a name or a type beyond base/limits.hpp, a record
/// without sites, is-enabled sites in version 1), limit.
Result<std::vector<std::byte>> write(Object& object);

/// A record in parts of at most limits::dof_record_sites sites of a kind; mostly there is one. A
/// caller that must distinguish records splits them before write() does.
std::vector<Record> split(const Record& record);

/// The name by which a DOF calls the function of a symbol: the symbol itself, or, beyond what
/// readers take, 118 bytes of it, '~' and a hash (docs/formats/object-step.md,
/// "Calls and functions").
std::string function_name(std::string_view symbol);

}  // namespace vitrine::dof
