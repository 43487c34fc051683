#include "observe/profile/code_reader.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "base/clock.hpp"
#include "base/file_descriptor.hpp"
#include "base/limits.hpp"
#include "observe/events/event_labels.hpp"
#include "sandbox/files.hpp"
#include "target/mapped_files.hpp"
#include "target/proc_file.hpp"
#include "target/process_memory.hpp"
#include "target/threads.hpp"

namespace vitrine::observe {
namespace {

constexpr std::uint64_t vdso_bytes = 1U << 20;   // two to four pages
constexpr std::size_t max_mappings = 16 * 1024;  // of the code of a process; Chromium has 300
constexpr std::size_t max_pieces = 4096;         // by events

/// The vdso is an ELF file that only memory has.
Result<std::vector<std::byte>> read_image(int proc_dir, const target::Mapping& mapping) {
  const auto live = TRY(target::live_thread(proc_dir));
  target::ProcessMemory memory(live, proc_dir, ~Address{0});
  const std::uint64_t size = std::min(mapping.end - mapping.start, vdso_bytes);
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  bytes.resize(memory.read_some(mapping.start, bytes));
  if (bytes.empty()) return fail(ErrorCode::failed, "its memory cannot be read");
  return bytes;
}

Result<std::unique_ptr<sandbox::FileMemory>> copy_image(std::span<const std::byte> bytes) {
  target::FileDescriptor copy(::memfd_create("vdso", MFD_CLOEXEC));
  if (const int error = copy ? write_all(copy.get(), bytes) : errno; error != 0)
    return fail(ErrorCode::failed, std::string("cannot be copied: ") + std::strerror(error));
  return sandbox::FileMemory::from(std::move(copy));
}

/// The kernel's, as this process has it; empty: not known.
const std::vector<std::byte>& our_vdso() {
  static const std::vector<std::byte> own_vdso = [] {
    std::vector<std::byte> bytes;
    const auto self = target::open_at(AT_FDCWD, "/proc/self", O_PATH | O_DIRECTORY);
    if (!self) return bytes;
    const auto mappings = target::executable_mappings(self->get());
    if (!mappings) return bytes;
    for (const target::Mapping& mapping : *mappings) {
      if (mapping.name != "[vdso]" || mapping.inode != 0) continue;
      const auto* const at = reinterpret_cast<const std::byte*>(mapping.start);
      bytes.assign(at, at + std::min(mapping.end - mapping.start, vdso_bytes));
    }
    return bytes;
  }();
  return own_vdso;
}

/// Code that a process has made at run time, read in its memory. CPython enters each Python function
/// through a copy of one trampoline (Python/asm_trampoline.S, 3.12 and 3.13, x86-64); about other
/// such code this knows nothing, and it goes by frame pointers.
class JitCode final : public unwind::RuleSource {
 public:
  JitCode(pid_t live, target::FileDescriptor proc_dir)
      : proc_dir_(std::move(proc_dir)), memory_(live, proc_dir_.get(), ~Address{0}) {}

  [[nodiscard]] Machine machine() const override { return native_machine; }

  unwind::Rule rule(Address address) override {
    const unwind::Row* found = row(address);
    return found != nullptr ? unwind::compact(*found, machine()) : unwind::Rule{};
  }

  const unwind::Row* row(Address address) override {
    if (machine() != Machine::x86_64) return nullptr;
    const auto at = within_trampoline(address);
    if (!at) return nullptr;
    row_ = {};
    row_.cfa = {unwind::RegisterRule::Kind::in_register, 0, unwind::roles_of(machine()).stack};
    const bool has_frame = *at >= after_sub && *at < after_add;
    row_.cfa_offset = has_frame ? 16 : 8;
    row_.registers[unwind::roles_of(machine()).result] = {unwind::RegisterRule::Kind::at_cfa, 0,
                                                          -8};
    return &row_;
  }

 private:
  // sub $8, %rsp; call *%rcx; add $8, %rsp; ret
  static constexpr std::array<std::uint8_t, 11> trampoline{0x48, 0x83, 0xec, 0x08, 0xff, 0xd1,
                                                           0x48, 0x83, 0xc4, 0x08, 0xc3};
  static constexpr std::size_t after_sub = 4, after_add = 10;

  std::optional<std::size_t> within_trampoline(Address address) {
    for (std::size_t at = 0; at < trampoline.size(); ++at) {
      std::array<std::byte, trampoline.size()> bytes{};
      if (memory_.read_some(address - at, bytes) == bytes.size() &&
          std::equal(trampoline.begin(), trampoline.end(), bytes.begin(),
                     [](std::uint8_t a, std::byte b) { return std::byte{a} == b; }))
        return at;
    }
    return std::nullopt;
  }

  target::FileDescriptor proc_dir_;
  target::ProcessMemory memory_;
  unwind::Row row_;
};

std::shared_ptr<JitCode> jit_code(int proc_dir) {
  const auto live = target::live_thread(proc_dir);
  target::FileDescriptor copy(::fcntl(proc_dir, F_DUPFD_CLOEXEC, 0));
  return live && copy ? std::make_shared<JitCode>(*live, std::move(copy)) : nullptr;
}

/// Files that may be open: others need descriptors, too.
std::size_t max_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return limits::code_files;
  return std::min<std::size_t>(limits::code_files, limit.rlim_cur / 2);
}

}  // namespace

CodeReader::OpenedFile CodeReader::open(const CodePlaces& places, const target::Mapping& mapping) {
  if (files_.size() >= max_files()) forget_unused();
  if (files_.size() >= max_files()) return fail(ErrorCode::limit, "too many files are open");
  const target::MappedFile file{mapping.device, mapping.inode, mapping.name, {mapping}};
  auto ahead = ahead_.extract({mapping.device, mapping.inode});
  auto opened = !ahead.empty()         ? std::move(ahead.mapped())
                : places.proc_dir >= 0 ? target::open_mapped(places.proc_dir, file)
                                       : fail(ErrorCode::not_found, "its process has ended");
  // The process may be gone, but the file is where it was.
  if (!opened && opened.error().code == ErrorCode::not_found && places.root >= 0)
    if (auto below = target::open_mapped_below(places.root, file)) opened = std::move(below);
  return std::move(opened).and_then(
      [](sandbox::OpenedFile found) { return sandbox::FileMemory::from(std::move(found)); });
}

CodeReader::File CodeReader::made_of(const std::string& name, OpenedFile file) {
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
  else if (!name.starts_with("/memfd:"))  // code made at run time: no file has rules for it
    rules_->report(name, rules.error().message);
  if (code->rules && code->rules->go_thread())
    go_files_.push_back({code->file, *code->rules->go_thread()});
  return code;
}

/// A process can write to its own: only what equals vitrine's is shared with other processes.
CodeReader::File CodeReader::vdso_of(int proc_dir, const target::Mapping& mapping) {
  auto image = read_image(proc_dir, mapping);
  if (!image) {  // of a process that has just ended it was the kernel's
    File kernels = target::program_image(proc_dir) == 0 ? vdso_of_kernel(mapping) : nullptr;
    return kernels ? kernels : made_of(mapping.name, tl::unexpected(std::move(image.error())));
  }
  const bool is_kernels = *image == our_vdso();
  if (is_kernels && vdso_ != nullptr) return vdso_;
  File file = made_of(mapping.name, copy_image(*image));
  if (is_kernels) vdso_ = file;
  return file;
}

/// That of a program as the kernel starts it.
CodeReader::File CodeReader::vdso_of_kernel(const target::Mapping& mapping) {
  if (our_vdso().empty() || our_vdso().size() != mapping.end - mapping.start) return nullptr;
  if (vdso_ == nullptr) vdso_ = made_of(mapping.name, copy_image(our_vdso()));
  return vdso_;
}

/// It may have been written to since: what is mapped is its content now.
const CodeReader::File& CodeReader::up_to_date(File& code) {
  if (code->file->has_changed()) code = made_of(code->name, code->file->reopened());
  return code;
}

/// What cannot be opened is this process's own trouble: another one may have the file.
CodeReader::File CodeReader::file_of(const CodePlaces& places, const target::Mapping& mapping) {
  const Key key(mapping.device, mapping.inode);
  if (const auto known = files_.find(key); known != files_.end() && known->second.as_in_maps)
    return up_to_date(known->second.code);
  OpenedFile file = open(places, mapping);
  if (!file) return made_of(mapping.name, std::move(file));
  const Key opened((*file)->identity().device, (*file)->identity().inode);
  const auto [known, is_new] = files_.try_emplace(opened);
  if (!is_new) return up_to_date(known->second.code);
  known->second = {made_of(mapping.name, std::move(file)), opened == key};
  return known->second.code;
}

namespace {

bool is_jit_code(const target::Mapping& mapping) {
  return mapping.inode == 0 && mapping.name.empty();
}

unwind::Region region_of(const target::Mapping& mapping, const CodeFile* file,
                         const std::shared_ptr<unwind::RuleSource>& made) {
  unwind::Region region{mapping.start, mapping.end, 0, nullptr};
  const auto rules = file != nullptr ? file->rules : nullptr;
  if (const auto bias = rules ? rules->bias(mapping.start, mapping.offset) : std::nullopt) {
    region.bias = *bias;
    region.rules = rules;
  }
  if (is_jit_code(mapping)) region.rules = made;
  return region;
}

/// A region, and what it is a mapping of.
struct Piece {
  target::Mapping mapping;
  std::shared_ptr<const CodeFile> file;
  unwind::Region region;
};

bool is_same_place(const target::Mapping& a, const target::Mapping& b) {
  return a.start == b.start && a.end == b.end && a.offset == b.offset && a.inode == b.inode &&
         a.device == b.device;
}

/// By where they begin; none overlaps another.
using Pieces = std::map<Address, Piece>;

/// Leaves of what was mapped what is outside of [start, end).
void cut_out(Pieces& pieces, Address start, Address end) {
  auto at = pieces.upper_bound(start);
  if (at != pieces.begin() && std::prev(at)->second.mapping.end > start) --at;
  while (at != pieces.end() && at->first < end) {
    const Piece piece = std::move(at->second);
    at = pieces.erase(at);
    const Address its_start = piece.mapping.start, its_end = piece.mapping.end;
    const auto keep = [&](Address from, Address to) {
      if (from >= to) return;
      Piece part = piece;
      if (part.mapping.inode != 0) part.mapping.offset += from - its_start;
      part.mapping.start = part.region.start = from;
      part.mapping.end = part.region.end = to;
      pieces.emplace_hint(at, from, std::move(part));
    };
    keep(its_start, std::min(its_end, start));
    keep(std::max(its_start, end), its_end);
  }
}

/// Of paths that are long as no program's are together, the last part.
void bound_names(std::vector<target::Mapping>& mappings) {
  constexpr std::size_t max_bytes = 4U << 20;
  std::size_t bytes = 0;
  for (target::Mapping& mapping : mappings) {
    bytes += mapping.name.size();
    const std::size_t slash = mapping.name.rfind('/');
    if (bytes <= max_bytes || slash == 0 || slash == std::string::npos) continue;
    mapping.name.replace(0, slash, "…");
    mapping.name.shrink_to_fit();
  }
}

/// Of each mapping the file that was read with it last, if it is still that; null: it must be opened.
std::vector<std::shared_ptr<const CodeFile>> still_there(
    std::span<const target::Mapping> mappings, std::span<const target::Mapping> before,
    std::span<const std::shared_ptr<const CodeFile>> files) {
  std::vector<std::shared_ptr<const CodeFile>> known;
  std::size_t at = 0;  // in `before`, which is by address, too
  for (const target::Mapping& mapping : mappings) {
    while (at < before.size() && before[at].start < mapping.start) ++at;
    const bool is_known = at < before.size() && at < files.size() && before[at] == mapping &&
                          files[at] != nullptr &&
                          (files[at]->file == nullptr || !files[at]->file->has_changed());
    known.push_back(is_known ? files[at] : nullptr);
  }
  return known;
}

}  // namespace

/// Opens what the process has mapped and no other has, all in one exchange.
void CodeReader::open_ahead(int proc_dir, std::span<const target::Mapping> mappings,
                            std::span<const File> known) {
  std::vector<target::MappedFile> wanted;
  std::set<Key> seen;
  for (std::size_t n = 0; n < mappings.size(); ++n) {
    const target::Mapping& mapping = mappings[n];
    const Key key(mapping.device, mapping.inode);
    if (mapping.inode == 0 || known[n] != nullptr || !seen.insert(key).second) continue;
    const auto shared = files_.find(key);
    if (shared != files_.end() && shared->second.as_in_maps) continue;
    wanted.push_back({mapping.device, mapping.inode, mapping.name, {mapping}});
  }
  if (wanted.size() < 2 || files_.size() + wanted.size() > max_files()) return;
  auto opened = target::open_mapped_files(proc_dir, wanted);
  for (std::size_t n = 0; n < wanted.size(); ++n)
    ahead_.emplace(Key(wanted[n].device, wanted[n].inode), std::move(opened[n]));
}

Result<ProcessCode> CodeReader::read(int proc_dir, std::span<const target::Mapping> before,
                                     std::span<const File> files, std::uint64_t* read_ns) {
  ProcessCode code;
  code.mappings = TRY(target::executable_mappings(proc_dir));
  if (read_ns != nullptr) *read_ns = kernel_time_ns();
  if (code.mappings.size() > max_mappings) code.mappings.resize(max_mappings);
  bound_names(code.mappings);
  std::vector<unwind::Region> regions;
  std::shared_ptr<JitCode> made;
  auto known = still_there(code.mappings, before, files);
  open_ahead(proc_dir, code.mappings, known);
  for (std::size_t n = 0; n < code.mappings.size(); ++n) {
    const target::Mapping& mapping = code.mappings[n];
    if (known[n] != nullptr)
      code.files.push_back(std::move(known[n]));
    else if (mapping.inode != 0)
      code.files.push_back(file_of({proc_dir, -1}, mapping));
    else
      code.files.push_back(mapping.name == "[vdso]" ? vdso_of(proc_dir, mapping) : nullptr);
    if (is_jit_code(mapping) && made == nullptr) made = jit_code(proc_dir);
    regions.push_back(region_of(mapping, code.files.back().get(), made));
  }
  ahead_.clear();
  code.map = unwind::CodeMap(std::move(regions));
  return code;
}

std::optional<ProcessCode> CodeReader::with(const unwind::CodeMap& map,
                                            std::span<const target::Mapping> mappings,
                                            std::span<const File> files,
                                            std::span<const target::Mapping* const> mapped,
                                            const CodePlaces& places) {
  Pieces pieces;
  std::shared_ptr<unwind::RuleSource> made;
  for (std::uint32_t n = 0; n < mappings.size(); ++n) {
    pieces.emplace_hint(pieces.end(), mappings[n].start, Piece{mappings[n], files[n], map[n]});
    if (is_jit_code(mappings[n])) made = map[n].rules;
  }
  bool has_changed = false;
  for (const target::Mapping* mapping : mapped) {
    if (mapping->start >= mapping->end) continue;
    if (const auto there = pieces.find(mapping->start); there != pieces.end()) {
      const Piece& piece = there->second;
      if (is_same_place(piece.mapping, *mapping) &&
          (piece.file == nullptr || piece.file->file == nullptr ||
           !piece.file->file->has_changed()))
        continue;
    }
    has_changed = true;
    cut_out(pieces, mapping->start, mapping->end);
    if (pieces.size() >= max_pieces) continue;
    Piece piece{*mapping, nullptr, {}};
    if (mapping->inode != 0)
      piece.file = file_of(places, *mapping);
    else if (mapping->name == "[vdso]")
      piece.file = vdso_of_kernel(*mapping);
    if (is_jit_code(*mapping) && made == nullptr && places.proc_dir >= 0)
      made = jit_code(places.proc_dir);
    piece.region = region_of(*mapping, piece.file.get(), made);
    pieces.emplace(mapping->start, std::move(piece));
  }
  if (!has_changed) return std::nullopt;
  ProcessCode code;
  std::vector<unwind::Region> regions;
  for (auto& [start, piece] : pieces) {
    code.mappings.push_back(std::move(piece.mapping));
    code.files.push_back(std::move(piece.file));
    regions.push_back(std::move(piece.region));
  }
  bound_names(code.mappings);
  code.map = unwind::CodeMap(std::move(regions));
  return code;
}

void CodeReader::forget_unused() {
  std::erase_if(files_, [](const auto& entry) { return entry.second.code.use_count() == 1; });
}

}  // namespace vitrine::observe
