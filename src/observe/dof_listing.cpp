#include "observe/dof_listing.hpp"

#include <elf.h>
#include <fcntl.h>

#include "file/file_memory.hpp"
#include "file/regular_file.hpp"

namespace vitrine::observe {

Result<DofListing> list_dof(const std::string& path) {
  auto opened = file::open_regular_at(AT_FDCWD, path);
  if (!opened) return tl::unexpected<Error>(std::move(opened.error()));
  const auto file = file::FileMemory::from(std::move(*opened));
  if (!file) return fail_while(path, file.error());
  const auto elf = elf::read_file(**file);
  if (!elf) return fail_while(path, elf.error());
  DofListing listing{path, elf->machine, elf->type == ET_REL, probe::find_dof(**file, *elf)};
  auto& problems = listing.file.problems;
  problems.insert(problems.begin(), elf->problems.begin(), elf->problems.end());
  return listing;
}

}  // namespace vitrine::observe
