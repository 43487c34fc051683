// ProfileNames: puts names to the places of a profile, each asked for once.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "observe/profile/builder.hpp"
#include "profile/profile.hpp"
#include "symbol/kernel_symbols.hpp"
#include "symbol/symboliser.hpp"

namespace vitrine::observe {

class ProfileNames {
 public:
  /// All of `unnamed`, with mappings and processes, and with `symbols` the functions of locations.
  /// Files that are somebody else's are parsed in a process of their own (symbol::Symboliser).
  profile::Profile name(UnnamedProfile unnamed, bool symbols);

 private:
  /// What tells a file from others, for who has it, too.
  struct FileNames {
    std::string build_id;
    std::string content_hash;
  };
  const FileNames& names_of(const CodeFile& code);
  void require_kernel(std::vector<std::string>& problems);

  symbol::Symboliser symboliser_;
  std::optional<symbol::KernelSymbols> kernel_;
  bool looked_at_kernel_ = false;
  std::map<file::FileIdentity, FileNames> files_;
};

}  // namespace vitrine::observe
