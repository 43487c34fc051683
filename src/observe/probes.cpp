#include "observe/probes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/limits.hpp"
#include "file/regular_file.hpp"
#include "observe/probe_file.hpp"
#include "target/mapped_files.hpp"
#include "target/permission.hpp"
#include "target/process.hpp"

namespace vitrine::observe {
namespace {

/// Where the kernel says an open file is.
std::string path_of(const file::FileMemory& file) {
  std::string path(limits::name_bytes, '\0');
  const auto link = fmt::format("/proc/self/fd/{}", file.descriptor());
  const ssize_t n = ::readlink(link.c_str(), path.data(), path.size());
  path.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return path;
}

bool same_file(int a, int b) {
  struct stat one {
  }, other{};
  return ::fstat(a, &one) == 0 && ::fstat(b, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

/// The biases that explain how a file's code lies in memory; as a rule one.
std::set<Address> biases(const ProbeFile& file, const target::MappedFile& mapped) {
  std::set<Address> found;
  for (const target::Mapping& part : mapped.parts)
    for (const elf::Segment& segment : file.code)
      if (part.offset < segment.offset + segment.file_size &&
          segment.offset < part.offset + (part.end - part.start))
        found.insert(part.start - part.offset + segment.offset - segment.address);
  return found;
}

}  // namespace

std::string ProbeFile::attach_path() const {
  return fmt::format("/proc/self/fd/{}", file->descriptor());
}

Result<std::shared_ptr<const ProbeFile>> ProbeFiles::open(const std::string& path) {
  auto file = TRY(file::open_regular_at(AT_FDCWD, path));
  return take(std::move(file), path, {});
}

Result<std::shared_ptr<const ProbeFile>> ProbeFiles::take(FileDescriptor file,
                                                          const std::string& path,
                                                          std::vector<int> roots) {
  auto memory = TRY_WHILE(path, file::FileMemory::from(std::move(file)));
  const auto identity = memory->identity();
  const auto known = known_.find(identity);
  if (known != known_.end()) return known->second;
  symbol::DebugPlaces places{{}, roots.empty() ? path_of(*memory) : path};
  places.roots = std::move(roots);
  auto found = read_probe_file(std::move(memory), path, places, detail_);
  if (!found)
    return known_.emplace(identity, fail_while(path, std::move(found.error()))).first->second;
  if (found->probes.empty()) found->file.reset();
  auto shared = std::make_shared<const ProbeFile>(std::move(*found));
  return known_.emplace(identity, std::move(shared)).first->second;
}

Result<ProcessProbes> ProbeFiles::of_process(int pid) {
  const auto directory = TRY(target::ProcessDirectory::open(pid));
  const int dir = directory.fd.get();
  const auto files = target::executable_files(dir);
  if (!files && files.error().code == ErrorCode::not_permitted)
    return tl::unexpected<Error>(target::access_refused(pid, dir, "list the probes of"));
  TRY_WHILE(fmt::format("process {}", pid), files);
  if (files->empty())
    return fail(
        ErrorCode::not_found,
        fmt::format("process {} executes no file: it is a kernel thread, or has ended", pid));
  // Debug files are looked for where the process looks, then where we do.
  const auto its_root = target::open_at(dir, "root", O_PATH);
  const auto our_root = target::open_at(AT_FDCWD, "/", O_PATH);
  std::vector<int> roots;
  if (its_root) roots.push_back(its_root->get());
  if (our_root && !(its_root && same_file(its_root->get(), our_root->get())))
    roots.push_back(our_root->get());

  ProcessProbes found;
  std::size_t refused = 0;
  for (const target::MappedFile& mapped : *files) {
    auto file = target::open_mapped(dir, mapped).and_then([&](FileDescriptor fd) {
      return take(std::move(fd), mapped.path, roots);
    });
    ++found.files;
    if (!file) {
      // Code that is no ELF file (a JIT's, a device's) has no probes, and is no fault.
      const ErrorCode code = file.error().code;
      if (code == ErrorCode::not_permitted) ++refused;
      if (code != ErrorCode::malformed && code != ErrorCode::unsupported)
        found.problems.push_back(file.error().message);
      continue;
    }
    if ((*file)->probes.empty() && (*file)->problems.empty()) continue;
    const auto places = biases(**file, mapped);
    for (const Address bias : places) found.modules.push_back({*file, bias});
    if (places.empty())
      found.problems.push_back(
          fmt::format("{}: its mappings do not match its program headers", mapped.path));
  }
  // CAP_PERFMON shows which files another user's process has mapped, but does not open them.
  if (refused == found.files)
    return tl::unexpected<Error>(target::access_refused(pid, dir, "list the probes of"));
  return found;
}

}  // namespace vitrine::observe
