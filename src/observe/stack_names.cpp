#include "observe/stack_names.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/limits.hpp"

namespace vitrine::observe {
namespace {

constexpr std::string_view deleted = " (deleted)";

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

void StackNames::look_at(pid_t pid) {
  const auto dir = target::open_at(AT_FDCWD, fmt::format("/proc/{}", pid), O_PATH | O_DIRECTORY);
  if (!dir) return;
  auto mapped = target::executable_files(dir->get());
  if (!mapped || mapped->empty()) return;
  const auto before = images_.find(pid);
  Image image;
  if (auto root = target::open_at(dir->get(), "root", O_PATH))
    image.root = std::make_shared<target::FileDescriptor>(std::move(*root));
  for (const target::MappedFile& file : *mapped) {
    if (image.files.size() == limits::modules) break;
    for (const target::Mapping& part : file.parts)
      image.parts.push_back({part.start, part.end, part.offset, image.files.size()});
    MappedFile seen{file.device, file.inode, file.path, nullptr};
    if (before != images_.end())  // saves opening it again
      for (const MappedFile& old : before->second->files)
        if (old.device == seen.device && old.inode == seen.inode && old.path == seen.path)
          seen.file = old.file;
    if (seen.file == nullptr) seen.file = open(dir->get(), file);
    image.files.push_back(std::move(seen));
  }
  std::sort(image.parts.begin(), image.parts.end(),
            [](const Part& a, const Part& b) { return a.start < b.start; });
  images_[pid] = std::make_shared<const Image>(std::move(image));
}

std::shared_ptr<NamedFile> StackNames::open(int proc_dir, const target::MappedFile& mapped) {
  auto file = target::open_mapped(proc_dir, mapped).and_then([](target::FileDescriptor fd) {
    return target::FileMemory::from(std::move(fd));
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
  const auto known = images_.find(parent);
  if (known != images_.end()) images_[child] = known->second;
}

std::vector<StackFrame> StackNames::name(pid_t pid, std::span<const Address> addresses) {
  std::vector<StackFrame> frames;
  for (const Address address : addresses) frames.push_back({address});
  const auto all_found = [&] {
    const auto known = images_.find(pid);
    if (known == images_.end()) return false;
    for (std::size_t i = 0; i < addresses.size(); ++i)
      if (known->second->find(within_call(addresses, i)) == nullptr) return false;
    return true;
  };
  if (pid != 0 && !all_found()) look_at(pid);
  const auto known = images_.find(pid);
  if (known == images_.end()) return frames;
  const Image& image = *known->second;
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
  DebugPlaces places;
  places.path = mapped.path;
  if (places.path.ends_with(deleted)) places.path.resize(places.path.size() - deleted.size());
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
