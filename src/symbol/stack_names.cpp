#include "symbol/stack_names.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/limits.hpp"
#include "target/mapped_files.hpp"
#include "target/maps.hpp"
#include "target/proc_file.hpp"

namespace vitrine::symbol {
namespace {

constexpr std::size_t max_pages = 1024;  // that are known to be in no file, of one process
constexpr Address page_bytes = 4096;

/// For one request about a file. Fires wait for the response: a file whose debug information takes
/// longer is named by its symbol table.
constexpr std::chrono::seconds longest_naming{2};

/// How often JIT symbols are read again: to see what replaced them, or one that is missing.
constexpr std::chrono::milliseconds jit_interval{1000}, missing_jit_interval{50};
/// How long they are kept, though others have no room.
constexpr std::chrono::seconds jit_round{10};

/// A return address may be the first of what lies behind a call that never returns: the call is
/// before it.
Address within_call(std::span<const Address> addresses, std::size_t frame) {
  return frame == 0 || addresses[frame] == 0 ? addresses[frame] : addresses[frame] - 1;
}

}  // namespace

StackNames::StackNames() : symboliser_({.time = longest_naming}, Place::file_offset) {
  if (auto root = target::open_at(AT_FDCWD, "/", O_PATH)) our_root_ = std::move(*root);
}

const ProcessFunctions::Part* ProcessFunctions::Image::find(Address address) const {
  const auto after = std::upper_bound(parts.begin(), parts.end(), address,
                                      [](Address a, const Part& part) { return a < part.start; });
  if (after == parts.begin()) return nullptr;
  const Part& part = *(after - 1);
  return address < part.end ? &part : nullptr;
}

bool ProcessFunctions::Image::is_code(Address address) const {
  const auto after = std::ranges::upper_bound(code, address, {},
                                              [](const CodeRange& range) { return range.start; });
  return after != code.begin() && address < (after - 1)->end;
}

ProcessFunctions ProcessFunctions::child() const {
  ProcessFunctions its;
  its.now = now;
  return its;
}

void StackNames::look_at(pid_t pid, ProcessFunctions& its) {
  const auto dir = target::open_at(AT_FDCWD, fmt::format("/proc/{}", pid), O_PATH | O_DIRECTORY);
  if (!dir) return;
  Image image;
  image.program = target::program_image(dir->get());
  const auto mappings = target::executable_mappings(dir->get());
  if (!mappings) return;
  const auto mapped = target::files_of(*mappings);
  if (mapped.empty()) return;
  if (target::program_image(dir->get()) != image.program) return;  // it will be looked at again
  if (auto root = target::open_at(dir->get(), "root", O_PATH))
    image.root = std::make_shared<target::FileDescriptor>(std::move(*root));
  for (const target::Mapping& mapping : *mappings)
    image.code.push_back({mapping.start, mapping.end});
  for (const target::MappedFile& file : mapped) {
    if (image.files.size() == limits::modules) break;
    for (const target::Mapping& part : file.parts)
      image.parts.push_back({part.start, part.end, part.offset, image.files.size()});
    MappedFile seen{file.device, file.inode, file.path, nullptr};
    if (its.now)  // saves opening it again
      for (const MappedFile& old : its.now->files)
        if (old.device == seen.device && old.inode == seen.inode && old.path == seen.path)
          seen.file = old.file;
    if (seen.file == nullptr) seen.file = open(dir->get(), file);
    image.files.push_back(std::move(seen));
  }
  std::sort(image.parts.begin(), image.parts.end(),
            [](const Part& a, const Part& b) { return a.start < b.start; });
  if (its.now && its.now->program != image.program) {
    its.before = std::move(its.now);
    its.jit = std::make_shared<JitSymbols>();
    its.jit_read.reset();
  }
  its.now = std::make_shared<const Image>(std::move(image));
  its.elsewhere.clear();
  its.identity = target::read_inner_identity(dir->get());
}

const StackNames::Image* StackNames::image_of(const ProcessFunctions& its, std::uint64_t program) {
  for (const auto* image : {&its.now, &its.before})
    if (*image && (program == 0 || (*image)->program == 0 || (*image)->program == program))
      return image->get();
  return nullptr;
}

bool StackNames::is_seen(const ProcessFunctions& its, const Image& image, Address address) const {
  return image.find(address) != nullptr || its.elsewhere.size() >= max_pages ||
         its.elsewhere.contains(address / page_bytes);
}

std::shared_ptr<sandbox::FileMemory> StackNames::open(int proc_dir,
                                                      const target::MappedFile& mapped) {
  auto file = target::open_mapped(proc_dir, mapped).and_then([](sandbox::OpenedFile opened) {
    return sandbox::FileMemory::from(std::move(opened));
  });
  if (!file && file.error().code == ErrorCode::limit) notes_.add(file.error().message);
  if (!file) return nullptr;
  std::erase_if(files_, [](const auto& known) { return known.second.expired(); });
  std::weak_ptr<sandbox::FileMemory>& known = files_[(*file)->identity()];
  if (auto shared = known.lock()) return shared;
  std::shared_ptr<sandbox::FileMemory> fresh = std::move(*file);
  known = fresh;
  return fresh;
}

std::vector<StackFrame> StackNames::name(pid_t pid, ProcessFunctions* its, bool has_pid,
                                         std::uint64_t program,
                                         std::span<const Address> addresses) {
  Named named;
  for (const Address address : addresses) named.push_back({{address}});
  const auto all = [&] {
    std::vector<StackFrame> frames;
    for (std::vector<StackFrame>& of_address : named)
      std::ranges::move(of_address, std::back_inserter(frames));
    return frames;
  };
  if (its == nullptr) return all();
  const auto all_seen = [&] {
    const Image* image = image_of(*its, program);
    if (image == nullptr) return false;
    for (std::size_t i = 0; i < addresses.size(); ++i)
      if (!is_seen(*its, *image, within_call(addresses, i))) return false;
    return true;
  };
  if (has_pid && !all_seen()) {
    std::set<Address> elsewhere = its->elsewhere;
    look_at(pid, *its);
    if (its->now == nullptr) return all();
    for (std::size_t i = 0; i < addresses.size() && elsewhere.size() < max_pages; ++i)
      if (its->now->find(within_call(addresses, i)) == nullptr)
        elsewhere.insert(within_call(addresses, i) / page_bytes);
    its->elsewhere = std::move(elsewhere);
  }
  const Image* seen = image_of(*its, program);
  if (seen == nullptr) return all();
  const Image& image = *seen;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const Address within = within_call(addresses, i);
    if (image.find(within) != nullptr) continue;
    if (auto frame = name_jit(*its, image, addresses[i], within)) {
      named[i] = {std::move(*frame)};
    } else if (i != 0 && !image.is_code(within)) {
      addresses = addresses.first(i);
      named.resize(i);
    }
  }
  std::vector<bool> asked(image.files.size());
  for (std::size_t i = 0; i < addresses.size(); ++i)
    if (const Part* part = image.find(within_call(addresses, i));
        part != nullptr && !asked[part->file]) {
      asked[part->file] = true;
      name_in(image, part->file, addresses, named);
    }
  return all();
}

/// Of code in no file.
std::optional<StackFrame> StackNames::name_jit(ProcessFunctions& its, const Image& image,
                                               Address address, Address within) {
  if (!image.root || &image != its.now.get()) return std::nullopt;
  auto function = its.jit->find(within);
  const auto now = Clock::now();
  if (!its.jit_read || now - *its.jit_read >= (function ? jit_interval : missing_jit_interval)) {
    if (now - jit_round_ >= jit_round) {
      jit_memory_.begin_round();
      jit_round_ = now;
    }
    if (auto problem =
            jit_memory_.refresh(its.jit, image.root->get(), its.identity.pid, its.identity.owner);
        !problem.empty())
      notes_.add(std::move(problem));
    its.jit_read = Clock::now();  // to read it may have taken long
    function = its.jit->find(within);
  }
  if (!function) return std::nullopt;
  return StackFrame{address, std::string(function->name), address - function->start, {}, false};
}

/// All frames that are in one file: one request for all of them.
void StackNames::name_in(const Image& image, std::size_t file, std::span<const Address> addresses,
                         Named& named) {
  const MappedFile& mapped = image.files[file];
  const std::string path =
      target::without_deleted(mapped.path, mapped.file ? mapped.file->original() : -1,
                              mapped.file && image.root ? image.root->get() : -1);
  std::vector<std::size_t> which;
  std::vector<Address> offsets;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const Address address = within_call(addresses, i);
    const Part* part = image.find(address);
    if (part == nullptr || part->file != file) continue;
    named[i].front().module = path;
    if (mapped.file == nullptr) continue;
    which.push_back(i);
    offsets.push_back(address - part->start + part->offset);
  }
  if (offsets.empty()) return;
  File asked{path, mapped.file->descriptor(), {}, mapped.file->identity()};
  // Debug files are looked for where the process looks, then where we do.
  if (image.root) asked.root_dirs.push_back(image.root->get());
  if (our_root_) asked.root_dirs.push_back(our_root_.get());
  const Resolved resolved = symboliser_.resolve(asked, offsets);
  if (!resolved.problem.empty()) notes_.add(asked.path + ": " + resolved.problem);
  for (std::size_t n = 0; n < which.size() && n < resolved.frames.size(); ++n) {
    const Frames& functions = resolved.frames[n];
    if (functions.empty()) continue;
    const Address address = addresses[which[n]];
    const Address moved = address - within_call(addresses, which[n]);  // 0 or 1
    std::vector<StackFrame>& frames = named[which[n]];
    frames.clear();
    for (const Frame& function : functions) {
      StackFrame& frame = frames.emplace_back(StackFrame{address, function.name, {}, path});
      frame.inlined = &function != &functions.back();
      if (function.offset) frame.offset = *function.offset + moved;
    }
  }
}

}  // namespace vitrine::symbol
