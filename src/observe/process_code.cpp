#include "observe/process_code.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/limits.hpp"
#include "file/file_memory.hpp"
#include "target/mapped_files.hpp"
#include "target/process_memory.hpp"
#include "target/threads.hpp"

namespace vitrine::observe {
namespace {

constexpr std::uint64_t vdso_bytes = 1U << 20;  // two to four pages

/// The vdso is an ELF file that only memory has.
Result<target::FileDescriptor> copy_image(int proc_dir, const target::Mapping& mapping) {
  const auto live = TRY(target::live_thread(proc_dir));
  target::ProcessMemory memory(live, proc_dir, ~Address{0});
  const std::uint64_t size = std::min(mapping.end - mapping.start, vdso_bytes);
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  const std::size_t got = memory.read_some(mapping.start, bytes);
  target::FileDescriptor copy(::memfd_create("vdso", MFD_CLOEXEC));
  if (got == 0 || !copy || ::write(copy.get(), bytes.data(), got) != static_cast<ssize_t>(got))
    return fail(ErrorCode::failed, std::string("cannot be copied: ") + std::strerror(errno));
  return copy;
}

/// Files that may be open: others need descriptors, too.
std::size_t most_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return limits::code_files;
  return std::min<std::size_t>(limits::code_files, limit.rlim_cur / 2);
}

}  // namespace

CodeReader::File CodeReader::open(int proc_dir, const target::Mapping& mapping) {
  if (files_.size() >= most_files()) forget_unused();
  if (files_.size() >= most_files())
    return made_of(mapping.name, fail(ErrorCode::limit, "too many files are open"));
  const bool is_file = mapping.inode != 0;
  return made_of(mapping.name,
                 (is_file ? target::open_mapped(
                                proc_dir, {mapping.device, mapping.inode, mapping.name, {mapping}})
                          : copy_image(proc_dir, mapping))
                     .and_then([](target::FileDescriptor fd) {
                       return file::FileMemory::from(std::move(fd));
                     }));
}

CodeReader::File CodeReader::made_of(const std::string& name,
                                     Result<std::unique_ptr<file::FileMemory>> file) {
  auto code = std::make_shared<CodeFile>();
  code->name = name;
  if (!file) {
    rules_->report(name, file.error().message);
    return code;
  }
  code->file = std::move(*file);
  auto rules = rules_->open(code->file, name);
  if (rules)
    code->rules = std::move(*rules);
  else
    rules_->report(name, rules.error().message);
  return code;
}

CodeReader::File CodeReader::file_of(int proc_dir, const target::Mapping& mapping) {
  if (mapping.name == "[vdso]") {
    if (vdso_ == nullptr) vdso_ = open(proc_dir, mapping);
    return vdso_;
  }
  if (mapping.inode == 0) return nullptr;
  const Key key(mapping.device, mapping.inode);
  const auto known = files_.find(key);
  if (known == files_.end()) return files_.emplace(key, open(proc_dir, mapping)).first->second;
  File& code = known->second;
  // It may have been written to since: what is mapped is what it says now.
  if (code->file != nullptr && code->file->has_changed())
    code = made_of(code->name, code->file->reopened());
  return code;
}

Result<ProcessCode> CodeReader::read(int proc_dir) {
  auto mappings = TRY(target::executable_mappings(proc_dir));
  std::vector<unwind::Region> regions;
  std::vector<File> files;
  for (const target::Mapping& mapping : mappings) {
    files.push_back(file_of(proc_dir, mapping));
    unwind::Region region{mapping.start, mapping.end, 0, nullptr};
    const auto rules = files.back() ? files.back()->rules : nullptr;
    if (const auto bias = rules ? rules->bias(mapping.start, mapping.offset) : std::nullopt) {
      region.bias = *bias;
      region.rules = rules;
    }
    regions.push_back(std::move(region));
  }
  return ProcessCode{unwind::CodeMap(std::move(regions)), std::move(mappings), std::move(files)};
}

void CodeReader::forget_unused() {
  std::erase_if(files_, [](const auto& entry) { return entry.second.use_count() == 1; });
}

}  // namespace vitrine::observe
