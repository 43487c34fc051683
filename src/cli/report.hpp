// What the command says beside its results: on standard error, one line each.
#pragma once

#include <string_view>

#include "base/result.hpp"

namespace vitrine::cli {

/// Prints "vitrine: message" and, below it, the remedy; returns the exit code of the error.
int report(const Error& error);

/// Prints "vitrine: note: …".
void note(std::string_view text);

}  // namespace vitrine::cli
