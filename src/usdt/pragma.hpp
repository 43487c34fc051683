// Pragmas of D: what they say of providers.
#pragma once

#include <vector>

#include "usdt/definition.hpp"
#include "usdt/token_stream.hpp"

namespace vitrine::usdt {

/// Applies each `#pragma D attributes N/D/C provider P component` to P, wherever P is declared in the
/// file. Others that say nothing of providers are passed over. What is wrong becomes the stream's
/// error.
void apply_pragmas(TokenStream& tokens, std::vector<Provider>& providers);

}  // namespace vitrine::usdt
