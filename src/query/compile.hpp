// What the kernel side gets of conditions and arithmetic: hashes of text, operands, steps.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "query/calculation.h"
#include "query/keyed_hash.h"
#include "query/subject.hpp"

namespace vitrine::query {

/// SipHash-1-3 of all of `bytes`.
std::uint64_t keyed_hash(const vitrine_hash_key& key, std::string_view bytes);

/// As the kernel hashes a captured string, the value of a label, or a thread's name: by its first
/// VITRINE_NAME_BYTES bytes. Never 0, which means "there is none".
std::uint64_t string_hash(const vitrine_hash_key& key, std::string_view bytes);

/// The operand that is this number.
vitrine_operand constant_operand(std::uint64_t value);

/// An operand with the size and the flags of a result.
vitrine_operand result_operand(const Calculation& calculation);

/// The steps that leave the result in capture `slot`.
std::vector<vitrine_calculation_step> compile_calculation(const Calculation& calculation,
                                                          const Arguments& site,
                                                          std::uint32_t slot);

}  // namespace vitrine::query
