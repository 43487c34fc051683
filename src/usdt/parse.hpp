// Reads provider definition files (`.d`): the part of D that declares providers (docs/providers.md,
// "The definition").
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "usdt/definition.hpp"

namespace vitrine::usdt {

/// Parses `text`; `path` is for messages ("shop.d:12: …"). Errors: malformed, with line, reason and
/// what to write instead; limit.
Result<Definition> parse(std::string_view text, const std::string& path);

}  // namespace vitrine::usdt
