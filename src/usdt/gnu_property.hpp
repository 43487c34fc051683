// The notes by which objects tell what processor features their code is made for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "usdt/object_file.hpp"

namespace vitrine::usdt {

/// The bits that every object of a program must claim for the program to have them: IBT and SHSTK
/// (x86), BTI and PAC (aarch64). Errors: malformed.
Result<std::uint32_t> feature_bits(const ObjectFile& object);

/// A .note.gnu.property that claims `bits`.
std::vector<std::byte> property_note(const ObjectMachine& machine, std::uint32_t bits);

}  // namespace vitrine::usdt
