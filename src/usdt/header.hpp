// Writes the C and C++ header of a definition: what `dtrace -h` does (docs/providers.md,
// "The header").
#pragma once

#include <string>

#include "base/result.hpp"
#include "usdt/definition.hpp"

namespace vitrine::usdt {

/// How FOO_BAR_ENABLED() learns that a tracer is attached.
enum class EnabledProtocol {
  /// A 16-bit counter that the kernel keeps: one load, any Linux since 4.20. The header declares
  /// `extern volatile unsigned short semaphore_symbol()`, hidden; the probe object of the link step
  /// defines it (weak, hidden, 0) for every declared probe, whether an object refers to it or not.
  semaphore,
  return_value,  ///< a call that a tracer makes return 1 (DOF version 2)
  pointer,       ///< a call whose argument a tracer writes to (DOF version 3)
};

struct HeaderOptions {
  std::string file_name;  ///< for the include guard
  EnabledProtocol enabled = EnabledProtocol::semaphore;
};

/// Errors: usage (two probes whose macros have the same name).
Result<std::string> header_text(const Definition& definition, const HeaderOptions& options);

}  // namespace vitrine::usdt
