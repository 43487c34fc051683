// The files that a process executes code of, found by its mappings: whatever loaded them.
#pragma once

#include <sys/types.h>

#include "target/maps.hpp"
#include "target/proc_file.hpp"

namespace vitrine::target {

/// A file by its device and inode: as long as it is mapped, no other has both.
struct MappedFile {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::string path;            ///< as the kernel names it, " (deleted)" included
  std::vector<Mapping> parts;  ///< its executable mappings, by address
};

/// All executable mappings, those without a file too, by address. `proc_dir`: descriptor of
/// /proc/PID. Errors: not_found (the process is gone), not_permitted.
Result<std::vector<Mapping>> executable_mappings(int proc_dir);

/// The files among executable mappings, by the address of their first part.
std::vector<MappedFile> files_of(const std::vector<Mapping>& mappings);

/// By the address of their first part. `proc_dir`: descriptor of /proc/PID. Errors: not_found (the
/// process is gone), not_permitted.
Result<std::vector<MappedFile>> executable_files(int proc_dir);

/// Opens a mapped file: exactly that one, deleted or in another mount namespace, or not at all.
/// Errors: not_found (unmapped meanwhile), not_permitted, unsupported (not a regular file).
Result<FileDescriptor> open_mapped(int proc_dir, const MappedFile& file);

}  // namespace vitrine::target
