// Files that commands write.
#pragma once

#include <string>

#include "base/result.hpp"
#include "sandbox/files.hpp"

namespace vitrine::cli {

/// Whether a file can be written, as far as that is known before. Errors: not_found (no such
/// directory), not_permitted, failed.
Result<void> check_writable(const std::string& path, sandbox::StagedFile::Access access);

/// Whether it is, or will be, a file of this user in a directory of this user: writing that takes no
/// capability. So does standard output, "-".
bool is_users_own(const std::string& path);

}  // namespace vitrine::cli
