// Opening files that others name: regular ones alone, so that no pipe makes us wait and no device
// does anything for having been opened.
#pragma once

#include <sys/types.h>

#include "file/open.hpp"

namespace vitrine::file {

/// Opens a regular file for reading. Errors: not_found, not_permitted, unsupported (it is something
/// else: the message says what), failed.
Result<FileDescriptor> open_regular_at(int dir, const std::string& path);

/// The same for a path as a process with the root directory `root` (a descriptor) would take it:
/// links in it do not lead out. Errors as above; unsupported too where the kernel cannot do it
/// (before Linux 5.6).
Result<FileDescriptor> open_regular_below(int root, const std::string& path);

/// The same for a file in a place where anybody may make one: `path` itself is no link, and the
/// file belongs to `owner`. Errors as above; not_permitted names the owner that it has.
Result<FileDescriptor> open_owned_below(int root, const std::string& path, uid_t owner);

}  // namespace vitrine::file
