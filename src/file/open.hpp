// Opening files.
#pragma once

#include <string>

#include "base/file_descriptor.hpp"
#include "base/result.hpp"

namespace vitrine::file {

/// Opens `path` below the directory `dir`, close-on-exec. Errors: not_found (also when the process
/// behind a file of /proc is gone), not_permitted, failed.
Result<FileDescriptor> open_at(int dir, const std::string& path, int flags);

/// What an error of open(2) or read(2) means.
ErrorCode code_of(int error);

}  // namespace vitrine::file
