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
constexpr std::size_t most_problems = 64;

/// A file that its frame table shares with others.
class SharedFile final : public Memory {
 public:
  explicit SharedFile(std::shared_ptr<Memory> file) : file_(std::move(file)) {}
  void read(std::span<ReadRequest> requests) override { file_->read(requests); }

 private:
  std::shared_ptr<Memory> file_;
};

/// The vdso is an ELF file that only memory has.
Result<target::FileDescriptor> copy_image(int proc_dir, const target::Mapping& mapping) {
  const auto live = target::live_thread(proc_dir);
  if (!live) return tl::unexpected<Error>(live.error());
  target::ProcessMemory memory(*live, proc_dir, ~Address{0});
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
  auto code = std::make_shared<CodeFile>();
  code->name = mapping.name;
  std::string why;
  if (files_.size() >= most_files()) forget_unused();
  if (files_.size() >= most_files()) {
    why = "too many files are open";
  } else {
    const bool is_file = mapping.inode != 0;
    auto file = (is_file ? target::open_mapped(
                               proc_dir, {mapping.device, mapping.inode, mapping.name, {mapping}})
                         : copy_image(proc_dir, mapping))
                    .and_then([](target::FileDescriptor fd) {
                      return file::FileMemory::from(std::move(fd));
                    });
    if (file) {
      code->file = std::move(*file);
      auto table = unwind::FrameTable::open(std::make_unique<SharedFile>(code->file));
      if (table) code->table = std::move(*table);
      why = code->table ? code->table->problem() : table.error().message;
    } else {
      why = file.error().message;
    }
  }
  if (!why.empty() && problems_.size() < most_problems)
    problems_.push_back(mapping.name + ": stacks are unwound by frame pointers: " + why);
  return code;
}

CodeReader::File CodeReader::file_of(int proc_dir, const target::Mapping& mapping) {
  if (mapping.name == "[vdso]") {
    if (vdso_ == nullptr) vdso_ = open(proc_dir, mapping);
    return vdso_;
  }
  if (mapping.inode == 0) return nullptr;
  const Key key(mapping.device, mapping.inode);
  auto known = files_.find(key);
  if (known == files_.end()) known = files_.emplace(key, open(proc_dir, mapping)).first;
  return known->second;
}

Result<ProcessCode> CodeReader::read(int proc_dir) {
  auto mappings = target::executable_mappings(proc_dir);
  if (!mappings) return tl::unexpected<Error>(std::move(mappings.error()));
  std::vector<unwind::Region> regions;
  std::vector<File> files;
  for (const target::Mapping& mapping : *mappings) {
    files.push_back(file_of(proc_dir, mapping));
    unwind::Region region{mapping.start, mapping.end, 0,
                          files.back() ? files.back()->table : nullptr};
    const auto bias =
        region.table ? region.table->bias(mapping.start, mapping.offset) : std::nullopt;
    if (bias) {
      region.bias = *bias;
    } else {
      region.table = nullptr;
    }
    regions.push_back(std::move(region));
  }
  return ProcessCode{unwind::CodeMap(std::move(regions)), std::move(*mappings), std::move(files)};
}

void CodeReader::forget_unused() {
  std::erase_if(files_, [](const auto& entry) { return entry.second.use_count() == 1; });
}

}  // namespace vitrine::observe
