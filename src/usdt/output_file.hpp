// Writes a file whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace vitrine::usdt {

/// Puts `bytes` into `path` through a temporary file beside it and a rename: a reader, a full disk or
/// a signal never leaves half a file. What holds these bytes already is left alone with its time of
/// change, so that make sees nothing to do; what is replaced keeps its permissions. True: written.
/// Errors: not_found (no such directory), not_permitted, failed.
Result<bool> write_whole(const std::string& path, std::string_view bytes);

}  // namespace vitrine::usdt
