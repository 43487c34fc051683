#include "observe/stack_names.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/limits.hpp"
#include "target/maps.hpp"
#include "target/program_image.hpp"

namespace vitrine::observe {
namespace {

constexpr std::size_t most_processes = 4096;
constexpr std::size_t most_pages = 1024;  // that are known to be in no file, of one process
constexpr Address page_bytes = 4096;

/// A return address may be the first of what lies behind a call that never returns: the call is
/// before it.
Address within_call(std::span<const Address> addresses, std::size_t frame) {
  return frame == 0 || addresses[frame] == 0 ? addresses[frame] : addresses[frame] - 1;
}

}  // namespace

const StackNames::Part* StackNames::Image::find(Address address) const {
  const auto after = std::upper_bound(parts.begin(), parts.end(), address,
                                      [](Address a, const Part& part) { return a < part.start; });
  if (after == parts.begin()) return nullptr;
  const Part& part = *(after - 1);
  return address < part.end ? &part : nullptr;
}

/// Room for one more is made by forgetting another: it is looked at again when it fires.
StackNames::Known& StackNames::known_of(pid_t pid) {
  if (processes_.size() >= most_processes && !processes_.contains(pid))
    processes_.erase(processes_.begin());
  return processes_[pid];
}

void StackNames::look_at(pid_t pid) {
  const auto dir = target::open_at(AT_FDCWD, fmt::format("/proc/{}", pid), O_PATH | O_DIRECTORY);
  if (!dir) return;
  Image image;
  image.program = target::program_image(dir->get());
  auto mapped = target::executable_files(dir->get());
  if (!mapped || mapped->empty()) return;
  if (target::program_image(dir->get()) != image.program) return;  // it will be looked at again
  Known& known = known_of(pid);
  if (auto root = target::open_at(dir->get(), "root", O_PATH))
    image.root = std::make_shared<target::FileDescriptor>(std::move(*root));
  for (const target::MappedFile& file : *mapped) {
    if (image.files.size() == limits::modules) break;
    for (const target::Mapping& part : file.parts)
      image.parts.push_back({part.start, part.end, part.offset, image.files.size()});
    MappedFile seen{file.device, file.inode, file.path, nullptr};
    if (known.now)  // saves opening it again
      for (const MappedFile& old : known.now->files)
        if (old.device == seen.device && old.inode == seen.inode && old.path == seen.path)
          seen.file = old.file;
    if (seen.file == nullptr) seen.file = open(dir->get(), file);
    image.files.push_back(std::move(seen));
  }
  std::sort(image.parts.begin(), image.parts.end(),
            [](const Part& a, const Part& b) { return a.start < b.start; });
  if (known.now && known.now->program != image.program) known.before = std::move(known.now);
  known.now = std::make_shared<const Image>(std::move(image));
  known.elsewhere.clear();
}

const StackNames::Image* StackNames::image_of(const Known& known, std::uint64_t program) {
  for (const auto* image : {&known.now, &known.before})
    if (*image && (program == 0 || (*image)->program == 0 || (*image)->program == program))
      return image->get();
  return nullptr;
}

bool StackNames::is_seen(const Known& known, const Image& image, Address address) const {
  return image.find(address) != nullptr || known.elsewhere.size() >= most_pages ||
         known.elsewhere.contains(address / page_bytes);
}

std::shared_ptr<NamedFile> StackNames::open(int proc_dir, const target::MappedFile& mapped) {
  auto file = target::open_mapped(proc_dir, mapped).and_then([](target::FileDescriptor fd) {
    return file::FileMemory::from(std::move(fd));
  });
  if (!file) return nullptr;
  std::erase_if(files_, [](const auto& known) { return known.second.expired(); });
  std::weak_ptr<NamedFile>& known = files_[(*file)->identity()];
  if (auto shared = known.lock()) return shared;
  auto fresh = std::make_shared<NamedFile>(std::move(*file));
  known = fresh;
  return fresh;
}

void StackNames::forked(pid_t parent, pid_t child) {
  const auto known = processes_.find(parent);
  if (known == processes_.end()) return;
  const auto image = known->second.now;
  known_of(child) = {image, nullptr, {}};
}

std::vector<StackFrame> StackNames::name(pid_t pid, std::uint64_t program,
                                         std::span<const Address> addresses) {
  std::vector<StackFrame> frames;
  for (const Address address : addresses) frames.push_back({address});
  if (pid == 0) return frames;
  const auto all_seen = [&] {
    const auto known = processes_.find(pid);
    if (known == processes_.end()) return false;
    const Image* image = image_of(known->second, program);
    if (image == nullptr) return false;
    for (std::size_t i = 0; i < addresses.size(); ++i)
      if (!is_seen(known->second, *image, within_call(addresses, i))) return false;
    return true;
  };
  if (!all_seen()) {
    const auto before = processes_.find(pid);
    std::set<Address> elsewhere;
    if (before != processes_.end()) elsewhere = before->second.elsewhere;
    look_at(pid);
    const auto known = processes_.find(pid);
    if (known == processes_.end()) return frames;
    for (std::size_t i = 0; i < addresses.size() && elsewhere.size() < most_pages; ++i)
      if (known->second.now->find(within_call(addresses, i)) == nullptr)
        elsewhere.insert(within_call(addresses, i) / page_bytes);
    known->second.elsewhere = std::move(elsewhere);
  }
  const Image* seen = image_of(processes_.at(pid), program);
  if (seen == nullptr) return frames;
  const Image& image = *seen;
  std::vector<bool> named(image.files.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const Part* part = image.find(within_call(addresses, i));
    if (part == nullptr || named[part->file]) continue;
    named[part->file] = true;
    name_in(image, part->file, addresses, frames);
  }
  return frames;
}

/// All frames that are in one file: its tables are searched once for them.
void StackNames::name_in(const Image& image, std::size_t file, std::span<const Address> addresses,
                         std::vector<StackFrame>& frames) const {
  const MappedFile& mapped = image.files[file];
  std::vector<std::size_t> which;
  std::vector<Address> asked;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const Address address = within_call(addresses, i);
    const Part* part = image.find(address);
    if (part == nullptr || part->file != file) continue;
    frames[i].module = mapped.path;
    if (mapped.file == nullptr) continue;
    const auto its_address = mapped.file->address_of(address - part->start + part->offset);
    if (!its_address) continue;
    which.push_back(i);
    asked.push_back(*its_address);
  }
  if (asked.empty()) return;
  symbol::DebugPlaces places;
  places.path = target::without_deleted(mapped.path);
  // Where the process looks, then where we do.
  const auto our_root = target::open_at(AT_FDCWD, "/", O_PATH);
  if (image.root) places.roots.push_back(image.root->get());
  if (our_root) places.roots.push_back(our_root->get());
  const auto functions = mapped.file->functions(asked, places);
  for (std::size_t n = 0; n < which.size(); ++n) {
    if (functions[n].name.empty()) continue;
    StackFrame& frame = frames[which[n]];
    frame.function = functions[n].name;
    const Address moved = frame.address - within_call(addresses, which[n]);  // 0 or 1
    frame.offset = asked[n] - functions[n].start + moved;
  }
}

}  // namespace vitrine::observe
