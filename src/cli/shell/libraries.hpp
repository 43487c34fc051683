// Libraries that the command loads when it needs them (cmake/VitrineLazy.cmake).
#pragma once

#include "base/result.hpp"

namespace vitrine::cli {

/// Loads libdw, libelf and libbpf, whose functions cannot be called before. To be called before system
/// calls are filtered, and before a worker is started. The second call, and one in a program that is linked
/// with the libraries, does nothing. Errors: unsupported (a library is missing, or another version).
Result<void> load_libraries();

}  // namespace vitrine::cli
