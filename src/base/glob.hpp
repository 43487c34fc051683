// Globs on values: any bytes, and never slower than pattern length times text length.
#pragma once

#include <string_view>

namespace vitrine {

/// Whether `pattern` describes all of `text`: `*` any bytes, `?` one byte, `[a-z]` one of them,
/// `[!a-z]` one that is not, `\` takes the next byte as it is. A `[` without its `]` is itself.
bool glob_matches(std::string_view pattern, std::string_view text);

}  // namespace vitrine
