// What both spellings of the header step (vitrine usdt header, dtrace -h) do.
#pragma once

#include <string>

#include "usdt/header.hpp"

namespace vitrine::cli {

/// Writes the header of what was read from `source` to `output` ("-": standard output; empty: the
/// name of `source` with .h, here). Reports what goes wrong. Returns an ExitCode.
int write_header(const usdt::Definition& definition, usdt::HeaderOptions options,
                 const std::string& source, std::string output);

}  // namespace vitrine::cli
