// Reads provider definition files (`.d`): the part of D that declares providers (docs/providers.md,
// "The definition").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "usdt/definition.hpp"
#include "usdt/lexer.hpp"

namespace vitrine::usdt {

// Pragmas of D: what they declare of providers.

/// Applies each `#pragma D attributes N/D/C provider P component` to P, wherever P is declared in the
/// file. Others that declare nothing of providers are passed over. What is wrong becomes the stream's
/// error.
void apply_pragmas(TokenStream& tokens, std::vector<Provider>& providers);

/// Parses `text`; `path` is for messages ("shop.d:12: …"). Errors: malformed, with line, reason and
/// what to write instead; limit.
Result<Definition> parse(std::string_view text, const std::string& path);

}  // namespace vitrine::usdt
