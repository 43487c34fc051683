// Looking into one file for probes.
#pragma once

#include "observe/probes.hpp"
#include "symbol/debug_file.hpp"

namespace vitrine::observe {

/// Reads the probes of an open file, which `path` names. Its notes may be in a separate debug file,
/// looked for in `places`. Errors: malformed (no ELF file).
Result<ProbeFile> read_probe_file(std::shared_ptr<file::FileMemory> file, std::string path,
                                  const symbol::DebugPlaces& places, const ProbeDetail& detail);

}  // namespace vitrine::observe
