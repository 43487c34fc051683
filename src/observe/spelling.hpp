// How far a name is from one that was meant.
#pragma once

#include <cstddef>
#include <string_view>

namespace vitrine::observe {

/// How many characters to insert, take out or exchange (Levenshtein), in the first 128 bytes.
std::size_t spelling_distance(std::string_view one, std::string_view other);

}  // namespace vitrine::observe
