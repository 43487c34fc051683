#include "probe/dof_file.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/limits.hpp"
#include "dof/reader.hpp"
#include "elf/section_bytes.hpp"

namespace vitrine::probe {
namespace {

constexpr std::string_view section_name = ".SUNW_dof";
constexpr std::uint32_t section_type = 0x6ffffff4;  // SHT_SUNW_dof
constexpr std::uint64_t dof_alignment = 8;

class Finder {
 public:
  Finder(Memory& file, const elf::File& elf, DofFile& into) : file_(file), elf_(elf), into_(into) {}

  void find() {
    std::vector<std::size_t> sections;
    for (std::size_t i = 0; i < elf_.sections.size(); ++i) {
      const elf::Section& section = elf_.sections[i];
      if (section.type == section_type || elf_.name(section) == section_name) sections.push_back(i);
    }
    if (elf_.type == ET_REL && !sections.empty())
      relocations_ = elf::section_relocations(file_, elf_, sections);
    for (const std::size_t index : sections) read_section(index);
    if (elf_.sections.empty()) search();
    apply_dynamic_relocations();
  }

 private:
  void read_section(std::size_t index) {
    const elf::Section& section = elf_.sections[index];
    if (section.type == SHT_NOBITS) {
      into_.content_elsewhere = true;
      return;
    }
    const auto read = elf::read_section(file_, elf_, section, bytes_left_);
    if (!read || !read->problem.empty())
      problem("{}: {}", section_name, read ? read->problem : read.error().message);
    if (!read) return;
    bytes_left_ -= std::min<std::uint64_t>(bytes_left_, read->bytes.size());
    dof::Objects found = dof::read(read->bytes, decoded_left_);
    decoded_left_ -= found.decoded_bytes;
    for (const dof::Problem& one : found.problems) problem("{}: {}", section_name, one.text);
    if (found.objects.empty() && found.problems.empty())
      problem("{} has no DOF in its {} bytes", section_name, section.size);
    for (dof::Object& object : found.objects) {
      add(std::move(object), section.address, section.offset);
      take_relocations(index, into_.dofs.back());
    }
  }

  void take_relocations(std::size_t section, PlacedDof& placed) {
    const auto& all = relocations_[section];
    const auto from = std::lower_bound(
        all.begin(), all.end(), placed.object.offset,
        [](const elf::SectionRelocation& one, std::uint64_t at) { return one.offset < at; });
    for (auto one = from; one != all.end(); ++one) {
      if (one->offset - placed.object.offset >= placed.object.file_size) break;
      placed.relocations.push_back(*one);
      placed.relocations.back().offset -= placed.object.offset;
    }
  }

  /// Where nothing says where they are, they are known by their first bytes; that they make sense
  /// as a whole decides.
  void search() {
    std::uint64_t left = limits::dof_search_bytes;
    for (const elf::Segment& segment : elf_.segments) {
      if (segment.type != PT_LOAD) continue;
      into_.searched = true;
      const std::uint64_t skip = (dof_alignment - segment.address % dof_alignment) % dof_alignment;
      if (segment.file_size <= skip) continue;
      // As any other part of a file that is read: what it claims costs nothing.
      elf::Section part;
      part.type = SHT_PROGBITS;
      part.offset = segment.offset + skip;
      part.size = segment.file_size - skip;
      const auto read = elf::read_section(file_, elf_, part, std::min(left, limits::dof_bytes));
      if (!read) continue;
      if (!read->problem.empty())
        problem("the segment at {}: {}", hex(segment.address), read->problem);
      left -= std::min<std::uint64_t>(left, read->bytes.size());
      dof::Objects found = dof::read(read->bytes, decoded_left_);
      decoded_left_ -= found.decoded_bytes;
      for (dof::Object& object : found.objects)
        if (!object.providers.empty()) add(std::move(object), segment.address + skip, part.offset);
    }
  }

  void add(dof::Object object, Address address, std::uint64_t file_offset) {
    PlacedDof placed;
    placed.object = std::move(object);
    placed.address = address + placed.object.offset;
    placed.file_offset = file_offset + placed.object.offset;
    const bool narrow = placed.object.model == dof::Model::ilp32;
    if (narrow == elf_.encoding.wide)
      placed.object.problems.push_back(
          {dof::Part::placement,
           fmt::format("its data model is {} in a {}-bit file", narrow ? "ILP32" : "LP64",
                       elf_.encoding.wide ? 64 : 32)});
    if (placed.address % dof_alignment != 0)
      placed.object.problems.push_back(
          {dof::Part::placement, fmt::format("its address {} is not a multiple of {}",
                                             hex(placed.address), dof_alignment)});
    into_.dofs.push_back(std::move(placed));
  }

  void apply_dynamic_relocations() {
    if (into_.dofs.empty() || elf_.type == ET_REL) return;
    std::vector<elf::AddressRange> ranges;
    for (const PlacedDof& one : into_.dofs)
      ranges.push_back({one.address, one.address + one.object.file_size});
    auto found = elf::dynamic_relocations(file_, elf_, ranges);
    for (std::string& text : found.problems) into_.problems.push_back(std::move(text));
    auto& all = found.relocations;
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.where < b.where; });
    for (PlacedDof& one : into_.dofs) apply(all, one);
  }

  static void apply(const std::vector<elf::DynamicRelocation>& all, PlacedDof& placed) {
    const auto before = [](const elf::DynamicRelocation& one, Address at) {
      return one.where < at;
    };
    const auto from = std::lower_bound(all.begin(), all.end(), placed.address, before);
    const auto to =
        std::lower_bound(from, all.end(), placed.address + placed.object.file_size, before);
    placed.dynamic_relocations.assign(from, to);
    for (dof::Provider& provider : placed.object.providers)
      for (dof::Record& record : provider.records) {
        const Address word = placed.address + record.word_offset;
        const auto one = std::lower_bound(from, to, word, before);
        if (one != to && one->where == word && one->value) record.word = *one->value;
      }
  }

  template <class... Args>
  void problem(fmt::format_string<Args...> text, Args&&... args) {
    if (into_.problems.size() < limits::search_notes)
      into_.problems.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  Memory& file_;
  const elf::File& elf_;
  DofFile& into_;
  // Of all sections together, which may all be of the same bytes.
  std::uint64_t bytes_left_ = limits::dof_bytes;
  std::uint64_t decoded_left_ = limits::dof_decoded_bytes;
  std::map<std::size_t, std::vector<elf::SectionRelocation>> relocations_;  ///< by section
};

}  // namespace

DofFile find_dof(Memory& file, const elf::File& elf) {
  DofFile found;
  Finder(file, elf, found).find();
  return found;
}

}  // namespace vitrine::probe
