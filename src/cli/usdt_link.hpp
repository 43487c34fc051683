// What both spellings of the object step (vitrine usdt link, dtrace -G) do.
#pragma once

#include <string>

#include "usdt/link.hpp"

namespace vitrine::cli {

/// Runs the object step for what was read from `source`; without an output in `options`, that is the
/// name of `source` with .o, here. Reports what goes wrong. Returns an ExitCode.
int link_objects(const usdt::Definition& definition, usdt::LinkOptions options,
                 const std::string& source, bool verbose);

}  // namespace vitrine::cli
