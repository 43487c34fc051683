#include "observe/process_code.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "base/byte_memory.hpp"
#include "base/limits.hpp"
#include "target/file_memory.hpp"
#include "target/mapped_files.hpp"
#include "target/threads.hpp"

namespace vitrine::observe {
namespace {

using Table = std::shared_ptr<unwind::FrameTable>;

constexpr std::uint64_t vdso_bytes = 1U << 20;  // two to four pages
constexpr std::size_t most_problems = 64;

Result<Table> open_file(int proc_dir, const target::Mapping& mapping) {
  const target::MappedFile file{mapping.device, mapping.inode, mapping.name, {mapping}};
  return target::open_mapped(proc_dir, file)
      .and_then([](target::FileDescriptor fd) { return target::FileMemory::from(std::move(fd)); })
      .and_then([](std::unique_ptr<target::FileMemory> memory) {
        return unwind::FrameTable::open(std::move(memory));
      });
}

/// The vdso is an ELF file that only memory has.
Result<Table> open_image(int proc_dir, const target::Mapping& mapping) {
  const auto live = target::live_thread(proc_dir);
  if (!live) return tl::unexpected<Error>(live.error());
  const auto memory = target::open_at(proc_dir, "task/" + std::to_string(*live) + "/mem", O_RDONLY);
  if (!memory) return tl::unexpected<Error>(memory.error());
  const std::uint64_t size = std::min(mapping.end - mapping.start, vdso_bytes);
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  const ssize_t got =
      ::pread(memory->get(), bytes.data(), bytes.size(), static_cast<off_t>(mapping.start));
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return unwind::FrameTable::open(std::make_unique<ByteMemory>(std::move(bytes)));
}

}  // namespace

Table CodeReader::keep(const std::string& name, Result<Table> table) {
  std::string why;
  if (!table) {
    why = table.error().message;
  } else {
    why = (*table)->problem();
  }
  if (!why.empty() && problems_.size() < most_problems)
    problems_.push_back(name + ": stacks are unwound by frame pointers: " + why);
  return table ? *table : nullptr;
}

Table CodeReader::table_of(int proc_dir, const target::Mapping& mapping) {
  if (mapping.name == "[vdso]") {
    if (vdso_ == nullptr) vdso_ = keep(mapping.name, open_image(proc_dir, mapping));
    return vdso_;
  }
  if (mapping.inode == 0) return nullptr;
  const Key key(mapping.device, mapping.inode);
  auto known = tables_.find(key);
  if (known == tables_.end())
    known = tables_.emplace(key, keep(mapping.name, open_file(proc_dir, mapping))).first;
  return known->second;
}

Result<ProcessCode> CodeReader::read(int proc_dir) {
  auto mappings = target::executable_mappings(proc_dir);
  if (!mappings) return tl::unexpected<Error>(std::move(mappings.error()));
  std::vector<unwind::Region> regions;
  for (const target::Mapping& mapping : *mappings) {
    unwind::Region region{mapping.start, mapping.end, 0, table_of(proc_dir, mapping)};
    const auto bias =
        region.table ? region.table->bias(mapping.start, mapping.offset) : std::nullopt;
    if (bias) {
      region.bias = *bias;
    } else {
      region.table = nullptr;
    }
    regions.push_back(std::move(region));
  }
  return ProcessCode{unwind::CodeMap(std::move(regions)), std::move(*mappings)};
}

void CodeReader::forget_unused() {
  std::erase_if(tables_, [](const auto& entry) { return entry.second.use_count() == 1; });
}

}  // namespace vitrine::observe
