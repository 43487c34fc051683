#include "symbol/dwarf_info.hpp"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>

#include "base/limits.hpp"
#include "base/memory.hpp"
#include "sandbox/worker.hpp"
#include "symbol/address_ranges.hpp"
#include "symbol/assembly_lines.hpp"
#include "symbol/compressed_sections.hpp"

namespace vitrine::symbol {
namespace {

/// Of units, until the file's pages are let go.
constexpr std::uint64_t max_read = 1U << 20;
/// Of units: where so much may be kept, so may the pages of a file that is not larger. Letting them go
/// takes a tenth of the time.
constexpr std::uint64_t kept_with_pages = 128U << 20;

std::string not_decompressed(const std::string& section) {
  return fmt::format("its section {} cannot be decompressed", section);
}

/// In place of libdw's own, which prints that on stderr.
void __attribute__((noreturn)) end_out_of_memory() {
  ::_exit(sandbox::out_of_memory);
}

}  // namespace

std::size_t allocated() {
  const struct mallinfo2 now = ::mallinfo2();
  return now.uordblks + now.hblkhd + InflatedSections::mapped_bytes();
}

Result<std::unique_ptr<DwarfInfo>> DwarfInfo::open(int descriptor, const elf::File& elf,
                                                   Purpose purpose, std::uint64_t kept) {
  if (elf.find(".debug_info") == nullptr && elf.find(".zdebug_info") == nullptr)
    return fail(ErrorCode::not_found, "it has no debug information");
  const auto malformed = [](const char* why) {
    return fail(ErrorCode::malformed, fmt::format("its debug information cannot be read: {}", why));
  };
  auto session = begin(descriptor, purpose);
  if (!session) return malformed(session.error().message.c_str());
  std::unique_ptr<DwarfInfo> made(
      new DwarfInfo(descriptor, std::move(*session), elf, purpose, kept));
  // A response with names reports the problem beside them: see find().
  if (purpose == Purpose::signatures && made->is_damaged())
    return malformed(made->problem().c_str());
  return made;
}

std::string DwarfInfo::Session::broken() const {
  std::string section = elf.broken();
  if (section.empty() && shared_elf) section = shared_elf->broken();
  return section;
}

DwarfInfo::ElfInMemory::ElfInMemory(int descriptor) {
  elf_version(EV_CURRENT);
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && status.st_size > 0) {
    const auto bytes = static_cast<std::size_t>(status.st_size);
    void* const mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapped != MAP_FAILED) mapped_ = {static_cast<std::byte*>(mapped), bytes};
  }
  elf_.reset(mapped_.empty() ? elf_begin(descriptor, ELF_C_READ, nullptr)
                             : elf_memory(reinterpret_cast<char*>(mapped_.data()), mapped_.size()));
  if (elf_ != nullptr && !mapped_.empty()) find_headers();
}

void DwarfInfo::ElfInMemory::inflate() {
  if (!mapped_.empty()) inflated_ = InflatedSections(elf_.get());
}

/// elf_compress() writes to the headers of sections where they are.
void DwarfInfo::ElfInMemory::find_headers() {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  GElf_Ehdr header{};
  std::size_t sections = 0;
  if (gelf_getehdr(elf_.get(), &header) == nullptr || elf_getshdrnum(elf_.get(), &sections) != 0 ||
      header.e_shoff >= mapped_.size())
    return;
  const std::size_t bytes =
      std::min(mapped_.size() - header.e_shoff, sections * sizeof(Elf64_Shdr));
  headers_begin_ = header.e_shoff / page * page;
  headers_end_ = align_up(header.e_shoff + bytes, page);
  ::mprotect(mapped_.data() + headers_begin_, headers_end_ - headers_begin_,
             PROT_READ | PROT_WRITE);
}

DwarfInfo::ElfInMemory::~ElfInMemory() {
  elf_.reset();
  if (!mapped_.empty()) ::munmap(mapped_.data(), mapped_.size());
}

void DwarfInfo::ElfInMemory::let_go_of_pages() const {
  if (mapped_.empty()) return;
  ::madvise(mapped_.data(), headers_begin_, MADV_DONTNEED);
  if (headers_end_ < mapped_.size())
    ::madvise(mapped_.data() + headers_end_, mapped_.size() - headers_end_, MADV_DONTNEED);
}

Result<std::unique_ptr<DwarfInfo::Session>> DwarfInfo::begin(int descriptor, Purpose purpose) {
  auto session = std::make_unique<Session>(descriptor);
  if (session->elf.get() == nullptr) return fail(ErrorCode::malformed, elf_errmsg(-1));
  if (purpose == Purpose::names) hide_unused_sections(session->elf.get());
  session->elf.inflate();
  session->dwarf.reset(dwarf_begin_elf(session->elf.get(), DWARF_C_READ, nullptr));
  if (const std::string name = still_compressed(session->elf.get()); !name.empty())
    session->problem = not_decompressed(name);
  if (session->dwarf == nullptr)
    return fail(ErrorCode::malformed,
                session->problem.empty() ? dwarf_errmsg(-1) : session->problem.c_str());
  dwarf_new_oom_handler(session->dwarf.get(), end_out_of_memory);
  take_shared(*session);
  return session;
}

DwarfInfo::DwarfInfo(int descriptor, std::unique_ptr<Session> session, const elf::File& headers,
                     Purpose purpose, std::uint64_t kept)
    : descriptor_(descriptor),
      headers_(headers),
      purpose_(purpose),
      session_(std::move(session)),
      kept_(kept) {
  problem_ = session_->problem;
  for (const elf::Section& section : headers.sections)
    if ((section.flags & SHF_EXECINSTR) != 0 && (section.flags & SHF_ALLOC) != 0)
      code_.push_back({section.address, section.address + section.size});
  std::sort(code_.begin(), code_.end(), [](Code a, Code b) { return a.start < b.start; });
  if (purpose != Purpose::names || !list_units()) ask_units();
  let_go_of_pages();
}

/// A section as libdw reads it; empty: it cannot.
std::span<const std::byte> DwarfInfo::section(std::string_view name) const {
  Elf* const elf = session_->elf.get();
  std::size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return {};
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header{};
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type == SHT_NOBITS ||
        (header.sh_flags & SHF_COMPRESSED) != 0)
      continue;
    const char* const its_name = elf_strptr(elf, names, header.sh_name);
    if (its_name == nullptr || name != its_name) continue;
    const Elf_Data* const data = elf_rawdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr) return {};
    return {static_cast<const std::byte*>(data->d_buf), data->d_size};
  }
  return {};
}

/// False: nothing is listed.
bool DwarfInfo::list_units() {
  ListedUnits listed =
      symbol::list_units(section(".debug_aranges"), headers_.encoding, [this](Address start) {
        if (!is_code(start)) return false;
        starts_.push_back(start);
        return true;
      });
  std::ranges::sort(starts_);
  listed_ = std::move(listed.offsets);
  ranges_ = std::move(listed.ranges);
  tops_.resize(listed_.size());
  return !listed_.empty();
}

/// Where their code is.
void DwarfInfo::ask_units() {
  listed_.clear();
  tops_.clear();
  units_.clear();
  size_ = 0;
  ranges_ = {};
  if (session_ == nullptr) return;
  session_->elf.inflated().expect(".debug_info", ~std::size_t{0});
  add_units();
  add_from_aranges();
  ranges_.build();
}

/// Of a unit that is listed. False: there is none. What libdw reads for it is inflated before.
bool DwarfInfo::find_top(std::uint32_t index) {
  Dwarf_Die& top = tops_[index];
  if (top.cu != nullptr || session_ == nullptr) return top.cu != nullptr;
  constexpr Dwarf_Off usual_kinds = 4U << 10;
  ::Dwarf* const dwarf = session_->dwarf.get();
  const Dwarf_Off offset = listed_[index];
  Dwarf_Off next = 0, kinds = 0;
  std::size_t header = 0;
  std::uint8_t kind = 0;
  if (dwarf_next_unit(dwarf, offset, &next, &header, nullptr, &kinds, nullptr, nullptr, nullptr,
                      nullptr) != 0)
    return false;
  session_->elf.inflated().expect(".debug_info", next);
  session_->elf.inflated().expect(".debug_abbrev", kinds + usual_kinds);
  Dwarf_Die found = {};
  if (dwarf_offdie(dwarf, offset + header, &found) == nullptr || dwarf_cuoffset(&found) != header ||
      dwarf_cu_info(found.cu, nullptr, &kind, nullptr, nullptr, nullptr, nullptr, nullptr) != 0 ||
      (kind != DW_UT_compile && kind != DW_UT_skeleton))
    return false;
  top = found;
  return true;
}

std::optional<std::uint32_t> DwarfInfo::unit_of(Address address) {
  const auto found = ranges_.find(address);
  if (found || listed_.empty()) return found;
  ask_units();
  return ranges_.find(address);
}

void DwarfInfo::expect_unit(std::uint32_t unit) {
  constexpr Dwarf_Off usual_unit = 64U << 10, usual_lines = 32U << 10;
  if (unit >= listed_.size() || session_ == nullptr) return;
  InflatedSections& inflated = session_->elf.inflated();
  const Dwarf_Off end = unit + 1 < listed_.size() ? listed_[unit + 1] : listed_[unit] + usual_unit;
  inflated.expect(".debug_info", end);
  Dwarf_Word lines = 0;
  Dwarf_Attribute found;
  if (find_top(unit) && dwarf_attr(&tops_[unit], DW_AT_stmt_list, &found) != nullptr &&
      dwarf_formudata(&found, &lines) == 0)
    inflated.expect(".debug_line", lines + usual_lines);
}

/// The same, if its topmost entry can be read.
std::optional<std::uint32_t> DwarfInfo::readable_unit_of(Address address) {
  auto index = unit_of(address);
  if (index && !listed_.empty() && !find_top(*index)) {
    ask_units();
    index = ranges_.find(address);
  }
  if (index && tops_[*index].cu == nullptr) return std::nullopt;
  return index;
}

/// libdw looks for the file by its build id alone when it does not know where this one lies.
void DwarfInfo::take_shared(Session& session) {
  const char* name = nullptr;
  const void* id = nullptr;
  const ssize_t id_bytes = dwelf_dwarf_gnu_debugaltlink(session.dwarf.get(), &name, &id);
  if (id_bytes <= 0 || name == nullptr || *name == '\0') return;
  session.shared_file = FileDescriptor(::open(name, O_RDONLY | O_CLOEXEC));
  if (!session.shared_file) return;
  session.shared_elf.emplace(session.shared_file.get());
  if (session.shared_elf->get() == nullptr) return;
  session.shared_elf->inflate();
  session.shared.reset(dwarf_begin_elf(session.shared_elf->get(), DWARF_C_READ, nullptr));
  if (session.shared == nullptr) return;
  const void* its_id = nullptr;
  const ssize_t its_bytes = dwelf_elf_gnu_build_id(session.shared_elf->get(), &its_id);
  if (its_bytes == id_bytes && std::memcmp(its_id, id, static_cast<std::size_t>(id_bytes)) == 0)
    dwarf_setalt(session.dwarf.get(), session.shared.get());
}

/// The units are the same.
void DwarfInfo::begin_anew() {
  std::vector<Dwarf_Off> offsets;
  if (listed_.empty())
    for (Dwarf_Die& top : tops_) offsets.push_back(dwarf_dieoffset(&top));
  units_.clear();
  size_ = allocated_ = 0;
  session_.reset();
  if (auto fresh = begin(descriptor_, purpose_)) session_ = std::move(*fresh);
  for (std::size_t i = 0; i < tops_.size(); ++i)
    if (session_ == nullptr || !listed_.empty() ||
        dwarf_offdie(session_->dwarf.get(), offsets[i], &tops_[i]) == nullptr)
      tops_[i] = {};
}

void DwarfInfo::let_go_of_pages() {
  read_ = 0;
  if (session_ == nullptr) return;
  if (kept_ >= kept_with_pages && session_->elf.mapped_bytes() <= kept_) return;
  session_->elf.let_go_of_pages();
  if (session_->shared_elf) session_->shared_elf->let_go_of_pages();
}

/// Code that the linker left out still has its description, at an address like 0 where nothing is:
/// that must not hide what really lies behind it. Code that many units have and the linker kept
/// once is described by each of them: the first is as good as any.
void DwarfInfo::add(Address start, Address end, std::uint32_t unit) {
  if (is_code(start) && ranges_.size() < limits::dwarf_ranges) ranges_.add(start, end, unit, ~unit);
}

bool DwarfInfo::is_code(Address address) const {
  const auto after = std::upper_bound(code_.begin(), code_.end(), address,
                                      [](Address a, Code code) { return a < code.start; });
  return after != code_.begin() && address < (after - 1)->end;
}

void DwarfInfo::add_units() {
  Dwarf_CU *unit = nullptr, *next = nullptr;
  Dwarf_Off read_to = 0;  // since pages were let go
  std::uint8_t kind = 0;
  Dwarf_Die top = {};
  while (tops_.size() < limits::dwarf_units &&
         dwarf_get_units(session_->dwarf.get(), unit, &next, nullptr, &kind, &top, nullptr) == 0) {
    unit = next;
    if (kind != DW_UT_compile && kind != DW_UT_skeleton) continue;
    const auto index = static_cast<std::uint32_t>(tops_.size());
    tops_.push_back(top);
    if (const Dwarf_Off offset = dwarf_dieoffset(&top); offset - read_to > max_read) {
      read_to = offset;
      let_go_of_pages();
    }
    Dwarf_Addr base = 0, start = 0, end = 0;
    for (std::ptrdiff_t at = 0; (at = dwarf_ranges(&top, at, &base, &start, &end)) > 0;) {
      if (ranges_.size() >= limits::dwarf_ranges) break;
      add(start, end, index);
    }
  }
}

/// Units that do not record where their code is.
void DwarfInfo::add_from_aranges() {
  std::unordered_map<Dwarf_Off, std::uint32_t> silent;
  for (std::uint32_t i = 0; i < tops_.size(); ++i)
    if (!dwarf_hasattr(&tops_[i], DW_AT_ranges) && !dwarf_hasattr(&tops_[i], DW_AT_high_pc))
      silent.emplace(dwarf_dieoffset(&tops_[i]), i);
  if (silent.empty()) return;
  Dwarf_Aranges* aranges = nullptr;
  std::size_t count = 0;
  if (dwarf_getaranges(session_->dwarf.get(), &aranges, &count) != 0) return;
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

Frames DwarfInfo::find(Address address, std::size_t depth) {
  const auto likely = unit_of(address);
  if (is_damaged() || !likely) return {};
  const bool is_new = !units_.contains(*likely);
  if (is_new && allocated_ > kept_) begin_anew();
  const std::size_t before = is_new ? allocated() : 0;
  Frames frames;
  if (const auto index = readable_unit_of(address)) {
    DwarfUnit& known = unit(*index);
    frames = known.find(address, depth);
    if (is_new) allocated_ += allocated() - std::min(allocated(), before);
    if (problem_.empty()) problem_ = known.problem();
  }
  if (is_damaged()) return {};
  return frames;
}

Frames DwarfInfo::find_in_assembly(Address address) {
  const auto unit = ranges_.find(address);
  if (is_damaged() || session_ == nullptr || !unit || *unit + 1 >= listed_.size()) return {};
  if (listed_[*unit + 1] - listed_[*unit] > max_assembly_unit) return {};
  const auto after = std::ranges::upper_bound(starts_, address);
  if (after == starts_.begin()) return {};
  const LineSections sections{section(".debug_line"), section(".debug_line_str")};
  if (!has_assembly_lines(sections, headers_)) return {};
  // Where its table is, is not known: each before it is passed.
  session_->elf.inflated().expect(".debug_line", ~std::size_t{0});
  Frames found = find_assembly_line(sections, headers_, *std::prev(after), address);
  if (is_damaged()) return {};
  return found;
}

std::optional<Dwarf_Die> DwarfInfo::function_around(Address address) {
  const auto index = readable_unit_of(address);
  auto function = index ? unit(*index).function_around(address) : std::nullopt;
  if (is_damaged()) return std::nullopt;
  return function;
}

bool DwarfInfo::is_damaged() {
  if (is_damaged_ || session_ == nullptr) return is_damaged_;
  const std::string broken = session_->broken();
  if (broken.empty()) return false;
  is_damaged_ = true;
  problem_ = not_decompressed(broken);
  units_.clear();
  tops_.assign(tops_.size(), Dwarf_Die{});
  session_.reset();
  return true;
}

DwarfUnit& DwarfInfo::unit(std::uint32_t index) {
  if (const auto known = units_.find(index); known != units_.end()) return known->second;
  // Its strings and types are elsewhere in the file.
  const std::uint64_t bytes = bytes_of_unit(tops_[index]);
  if (read_ + bytes > max_read) let_go_of_pages();
  read_ += bytes;
  if (size_ > limits::dwarf_kept) {  // most units are not asked for again soon
    units_.clear();
    size_ = 0;
  }
  DwarfUnit& made = units_.emplace(index, tops_[index]).first->second;
  size_ += made.size();
  return made;
}

}  // namespace vitrine::symbol
