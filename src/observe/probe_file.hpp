// Looking into one file for probes.
#pragma once

#include "observe/probes.hpp"
#include "symbol/debug_places.hpp"

namespace vitrine::observe {

/// Reads the probes of an open file, which `path` names. Its notes may be in a separate debug file,
/// looked for in `places`. A worker does it. Errors: malformed (no ELF file); failed, limit (the file
/// was more than its parser could stand).
Result<ProbeFile> read_probe_file(std::shared_ptr<file::FileMemory> file, std::string path,
                                  const symbol::DebugPlaces& places, const ProbeDetail& detail);

}  // namespace vitrine::observe
