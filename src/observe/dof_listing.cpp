#include "observe/dof_listing.hpp"

#include <elf.h>
#include <fcntl.h>

#include "file/file_memory.hpp"
#include "file/regular_file.hpp"
#include "probe/packed.hpp"
#include "symbol/demangle.hpp"
#include "worker/parser.hpp"

namespace vitrine::observe {

template <pack::Of<DofListing> T>
auto fields(T& listing) {
  auto& [path, machine, relocatable, file] = listing;
  return std::tie(path, machine, relocatable, file);
}

namespace {

/// In a worker.
Result<DofListing> parse(const std::string& path, FileDescriptor descriptor) {
  const auto file = TRY(file::FileMemory::from(std::move(descriptor)));
  const auto elf = TRY(elf::read_file(*file));
  DofListing listing{path, elf.machine, elf.type == ET_REL, probe::find_dof(*file, elf)};
  for (probe::PlacedDof& dof : listing.file.dofs)
    for (dof::Provider& provider : dof.object.providers)
      for (dof::Record& record : provider.records)
        if (auto name = symbol::demangled(record.function); name != record.function)
          record.demangled = std::move(name);
  auto& problems = listing.file.problems;
  problems.insert(problems.begin(), elf.problems.begin(), elf.problems.end());
  return listing;
}

}  // namespace

Result<DofListing> list_dof(const std::string& path) {
  auto opened = TRY(file::open_regular_at(AT_FDCWD, path));
  return TRY_WHILE(path, worker::Parser::of_this_thread().ask<&parse>(path, opened.get()));
}

}  // namespace vitrine::observe
