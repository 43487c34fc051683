#include "symbol/dwarf_info.hpp"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/limits.hpp"
#include "worker/service.hpp"

namespace vitrine::symbol {
namespace {

/// In place of libdw's own, which says so on stderr.
void __attribute__((noreturn)) end_out_of_memory() {
  ::_exit(worker::out_of_memory);
}

}  // namespace

Result<std::unique_ptr<DwarfInfo>> DwarfInfo::open(int descriptor, const elf::File& elf) {
  if (elf.find(".debug_info") == nullptr && elf.find(".zdebug_info") == nullptr)
    return fail(ErrorCode::not_found, "it has no debug information");
  const auto malformed = [](const char* why) {
    return fail(ErrorCode::malformed, fmt::format("its debug information cannot be read: {}", why));
  };
  elf_version(EV_CURRENT);
  std::unique_ptr<Elf, EndElf> handle(elf_begin(descriptor, ELF_C_READ_MMAP, nullptr));
  if (handle == nullptr) return malformed(elf_errmsg(-1));
  ::Dwarf* dwarf = dwarf_begin_elf(handle.get(), DWARF_C_READ, nullptr);
  if (dwarf == nullptr) return malformed(dwarf_errmsg(-1));
  dwarf_new_oom_handler(dwarf, end_out_of_memory);
  return std::unique_ptr<DwarfInfo>(new DwarfInfo(handle.release(), dwarf, elf));
}

DwarfInfo::DwarfInfo(Elf* elf, ::Dwarf* dwarf, const elf::File& headers)
    : elf_(elf), dwarf_(dwarf) {
  for (const elf::Section& section : headers.sections)
    if ((section.flags & SHF_EXECINSTR) != 0 && (section.flags & SHF_ALLOC) != 0)
      code_.push_back({section.address, section.address + section.size});
  std::sort(code_.begin(), code_.end(), [](Code a, Code b) { return a.start < b.start; });
  take_shared();
  add_units();
  add_from_aranges();
  ranges_.build();
}

/// libdw looks for the file by its build id alone when it does not know where this one lies.
void DwarfInfo::take_shared() {
  const char* name = nullptr;
  const void* id = nullptr;
  const ssize_t id_bytes = dwelf_dwarf_gnu_debugaltlink(dwarf_.get(), &name, &id);
  if (id_bytes <= 0 || name == nullptr || *name == '\0') return;
  shared_file_ = FileDescriptor(::open(name, O_RDONLY | O_CLOEXEC));
  if (!shared_file_) return;
  shared_.reset(dwarf_begin(shared_file_.get(), DWARF_C_READ));
  if (shared_ == nullptr) return;
  const void* its_id = nullptr;
  const ssize_t its_bytes = dwelf_elf_gnu_build_id(dwarf_getelf(shared_.get()), &its_id);
  if (its_bytes == id_bytes && std::memcmp(its_id, id, static_cast<std::size_t>(id_bytes)) == 0)
    dwarf_setalt(dwarf_.get(), shared_.get());
}

/// Code that the linker left out still has its description, at an address like 0 where nothing is:
/// that must not hide what really lies behind it. Code that many units have and the linker kept
/// once is described by each of them: the first is as good as any.
void DwarfInfo::add(Address start, Address end, std::uint32_t unit) {
  const auto after = std::upper_bound(code_.begin(), code_.end(), start,
                                      [](Address a, Code code) { return a < code.start; });
  if (after != code_.begin() && start < (after - 1)->end && ranges_.size() < limits::dwarf_ranges)
    ranges_.add(start, end, unit, ~unit);
}

void DwarfInfo::add_units() {
  Dwarf_CU *unit = nullptr, *next = nullptr;
  std::uint8_t kind = 0;
  Dwarf_Die top = {};
  while (tops_.size() < limits::dwarf_units &&
         dwarf_get_units(dwarf_.get(), unit, &next, nullptr, &kind, &top, nullptr) == 0) {
    unit = next;
    if (kind != DW_UT_compile && kind != DW_UT_skeleton) continue;
    const auto index = static_cast<std::uint32_t>(tops_.size());
    tops_.push_back(top);
    Dwarf_Addr base = 0, start = 0, end = 0;
    for (std::ptrdiff_t at = 0; (at = dwarf_ranges(&top, at, &base, &start, &end)) > 0;) {
      if (ranges_.size() >= limits::dwarf_ranges) break;
      add(start, end, index);
    }
  }
}

/// Units that do not say themselves where their code is.
void DwarfInfo::add_from_aranges() {
  std::unordered_map<Dwarf_Off, std::uint32_t> silent;
  for (std::uint32_t i = 0; i < tops_.size(); ++i)
    if (!dwarf_hasattr(&tops_[i], DW_AT_ranges) && !dwarf_hasattr(&tops_[i], DW_AT_high_pc))
      silent.emplace(dwarf_dieoffset(&tops_[i]), i);
  if (silent.empty()) return;
  Dwarf_Aranges* aranges = nullptr;
  std::size_t count = 0;
  if (dwarf_getaranges(dwarf_.get(), &aranges, &count) != 0) return;
  for (std::size_t i = 0; i < count; ++i) {
    Dwarf_Addr start = 0;
    Dwarf_Word length = 0;
    Dwarf_Off offset = 0;
    Dwarf_Arange* arange = dwarf_onearange(aranges, i);
    if (arange == nullptr || dwarf_getarangeinfo(arange, &start, &length, &offset) != 0) continue;
    if (const auto top = silent.find(offset); top != silent.end())
      add(start, start + length, top->second);
  }
}

DwarfUnit& DwarfInfo::unit(std::uint32_t index) {
  if (const auto known = units_.find(index); known != units_.end()) return known->second;
  if (size_ > limits::dwarf_kept) {  // most units are not asked for again soon
    units_.clear();
    size_ = 0;
  }
  DwarfUnit& made = units_.emplace(index, tops_[index]).first->second;
  size_ += made.size();
  return made;
}

Frames DwarfInfo::find(Address address, std::size_t depth) {
  const auto index = ranges_.find(address);
  if (!index) return {};
  DwarfUnit& known = unit(*index);
  Frames frames = known.find(address, depth);
  if (problem_.empty()) problem_ = known.problem();
  return frames;
}

}  // namespace vitrine::symbol
