// What the DOFs of a file say, in full: what `vitrine usdt dump` shows.
#pragma once

#include <string>

#include "base/result.hpp"
#include "probe/dof_file.hpp"

namespace vitrine::observe {

struct DofListing {
  std::string path;           ///< as the user names it
  std::uint16_t machine = 0;  ///< EM_*
  bool relocatable = false;   ///< an object to be linked: no word is an address yet
  probe::DofFile file;
};

/// Errors: not_found, not_permitted, unsupported (no regular file), malformed (no ELF file).
Result<DofListing> list_dof(const std::string& path);

}  // namespace vitrine::observe
