// Opening files that others name: regular ones alone, so that no pipe makes us wait and no device
// does anything for having been opened.
#pragma once

#include "target/proc_file.hpp"

namespace vitrine::target {

/// Opens a regular file for reading. Errors: not_found, not_permitted, unsupported (it is something
/// else: the message says what), failed.
Result<FileDescriptor> open_regular_at(int dir, const std::string& path);

/// The same for a path as a process with the root directory `root` (a descriptor) would take it:
/// links in it do not lead out. Errors as above; unsupported too where the kernel cannot do it
/// (before Linux 5.6).
Result<FileDescriptor> open_regular_below(int root, const std::string& path);

}  // namespace vitrine::target
