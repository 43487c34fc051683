#include "probe/dof_probes.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_map>

#include "abi/dof.h"
#include "base/limits.hpp"
#include "dof/dof.hpp"
#include "dof/reader.hpp"
#include "elf/file.hpp"
#include "probe/types.hpp"

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
      if (has_dof(elf_, elf_.sections[i])) sections.push_back(i);
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

  /// Where nothing records where they are, they are known by their first bytes; that they make sense
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

bool has_dof(const elf::File& elf, const elf::Section& section) {
  return section.type == section_type || elf.name(section) == section_name;
}

DofFile find_dof(Memory& file, const elf::File& elf) {
  DofFile found;
  Finder(file, elf, found).find();
  return found;
}

namespace {

constexpr std::size_t bytes_before = 4, bytes_behind = 12;  // of a site, that patterns look at

/// Whether it is known which bytes are at sites of this machine.
bool has_patterns(Machine machine) {
  return std::ranges::any_of(dof::site_patterns(), [&](const dof::SitePattern& pattern) {
    return pattern.machine == machine;
  });
}

/// The stubs that calls lead to which were not replaced have the name of what they replace; "call,
/// return" at the end of another function looks the same.
bool is_stub(const dof::Record& record) {
  return record.function.starts_with("__dtrace_") ||
         record.function.starts_with("__dtraceenabled_");
}

class Maker {
 public:
  Maker(Memory& file, const FileLayout& layout, Machine machine, DofProbes& into)
      : file_(file),
        layout_(layout),
        machine_(machine),
        has_patterns_(has_patterns(machine)),
        into_(into) {}

  void make(const PlacedDof& placed) {
    for (const dof::Problem& one : placed.object.problems) problem(".SUNW_dof: {}", one.text);
    for (const dof::Provider& provider : placed.object.providers) {
      const auto semaphores = semaphores_of(placed, provider);
      for (const dof::Record& record : provider.records) {
        const auto function = dof::function_address(placed.object, record, placed.placement());
        if (!function) {
          ++into_.left_out;
          continue;
        }
        Common common{placed, record, *function, decided_elsewhere(placed, record), 0, {}, {}};
        if (const auto found = semaphores.find(record.name); found != semaphores.end())
          common.semaphore = found->second;
        add(probe_of(provider.name, record.name), common);
      }
    }
  }

 private:
  /// What the sites of a record share.
  struct Common {
    const PlacedDof& placed;
    const dof::Record& record;
    Address function;
    bool decided_elsewhere;
    Address semaphore;
    std::optional<CallArguments> arguments, arguments_below;  ///< below: a return address
  };

  static std::map<std::string, Address> semaphores_of(const PlacedDof& placed,
                                                      const dof::Provider& provider) {
    std::map<std::string, Address> found;
    for (const dof::Semaphore& one : provider.semaphores)
      if (const auto at = dof::semaphore_address(placed.object, one, placed.placement()))
        found.emplace(one.name, *at);
    return found;
  }

  /// Whether the record's word is written by a relocation that only the dynamic linker resolves.
  static bool decided_elsewhere(const PlacedDof& placed, const dof::Record& record) {
    const Address word = placed.address + record.word_offset;
    const auto& all = placed.dynamic_relocations;
    const auto found = std::lower_bound(
        all.begin(), all.end(), word,
        [](const elf::DynamicRelocation& one, Address at) { return one.where < at; });
    return found != all.end() && found->where == word && !found->value;
  }

  Probe& probe_of(const std::string& provider, const std::string& name) {
    const auto [known, is_new] =
        positions_.try_emplace(provider + '\0' + name, into_.probes.size());
    if (is_new) into_.probes.push_back({Kind::dof, provider, name, {}, {}});
    return into_.probes[known->second];
  }

  void add(Probe& probe, Common& common) {
    for (const std::uint32_t offset : common.record.offsets) {
      if (!count(common.record.prototype.translated.size())) return;
      Site site = site_at(common, offset);
      site.semaphore = common.semaphore;
      place(site, layout_);
      const auto pattern = verify(site, dof::Use::fire);
      CallArguments arguments = arguments_of(common, return_address_at(common, pattern));
      site.arguments = std::move(arguments.operands);
      site.types = std::move(arguments.types);
      refuse_decided_elsewhere(site, common);
      probe.sites.push_back(std::move(site));
    }
    for (const std::uint32_t offset : common.record.enabled_offsets) {
      if (!count(1)) return;
      probe.enabled_sites.push_back(enabled_site_at(common, offset));
    }
  }

  Site enabled_site_at(Common& common, std::uint32_t offset) {
    Site site = site_at(common, offset);
    place(site, layout_);
    if (common.placed.object.version == VITRINE_DOF_VERSION_ENABLED_POINTER) {
      site.use = SiteUse::enabled_pointer;
      const auto pattern = verify(site, dof::Use::fire);
      const std::array<std::string, 1> pointer{"uint32_t *"};
      const std::array<std::uint8_t, 1> itself{0};
      site.arguments =
          call_arguments({pointer, pointer, itself, return_address_at(common, pattern)}, machine_)
              .operands;
    } else {
      site.use = SiteUse::enabled_register;
      const auto pattern = verify(site, dof::Use::enabled_register);
      if (pattern && pattern->breakpoint != 0) {
        site.use = SiteUse::enabled_operand;
        *site.file_offset += pattern->breakpoint;
        *site.file_offset -= pattern->site;
      }
    }
    refuse_decided_elsewhere(site, common);
    return site;
  }

  static Site site_at(const Common& common, std::uint32_t offset) {
    Site site;
    site.is_stub = is_stub(common.record);
    site.address = dof::site_address(common.placed.object.model, common.function, offset);
    site.function = common.record.function;
    return site;
  }

  static void refuse_decided_elsewhere(Site& site, const Common& common) {
    if (!common.decided_elsewhere) return;
    site.file_offset.reset();
    site.problems.emplace_back(
        "its DOF needs a dynamic relocation of a symbol: the address is known only in a running "
        "process");
  }

  std::optional<dof::SitePattern> verify(Site& site, dof::Use use) {
    if (!site.file_offset) return std::nullopt;
    std::array<std::byte, bytes_before + bytes_behind> code{};
    const std::uint64_t before = std::min<std::uint64_t>(*site.file_offset, bytes_before);
    const std::size_t got = file_.read_some(*site.file_offset - before, code);
    const auto pattern = dof::pattern_at(std::span(code).first(got),
                                         static_cast<std::size_t>(before), machine_, use);
    site.verified = pattern.has_value();
    if (site.verified) return pattern;
    site.file_offset.reset();
    site.problems.push_back(
        has_patterns_ ? fmt::format("the bytes at {} do not belong to a probe: its DOF belongs to "
                                    "other code, or is damaged",
                                    hex(site.address))
                      : std::string("the probe instructions of this processor are unknown"));
    return std::nullopt;
  }

  static bool return_address_at(const Common& common,
                                const std::optional<dof::SitePattern>& pattern) {
    return is_stub(common.record) || (pattern && pattern->instruction == dof::Instruction::jump);
  }

  const CallArguments& arguments_of(Common& common, bool return_address) const {
    auto& known = return_address ? common.arguments_below : common.arguments;
    const dof::Prototype& prototype = common.record.prototype;
    if (!known)
      known = call_arguments(
          {prototype.native, prototype.translated, prototype.argument_map, return_address},
          machine_);
    return *known;
  }

  /// False: no more sites. A small DOF may claim many, each with many arguments.
  bool count(std::size_t arguments) {
    if (full_) return false;
    ++sites_;
    arguments_ += arguments;
    full_ = sites_ > limits::probe_notes || arguments_ > limits::dof_site_arguments;
    if (full_)
      problem("it has more than {} sites, or more than {} arguments of sites: the rest is omitted",
              limits::probe_notes, limits::dof_site_arguments);
    return !full_;
  }

  template <class... Args>
  void problem(fmt::format_string<Args...> text, Args&&... args) {
    if (into_.problems.size() < limits::search_notes)
      into_.problems.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  Memory& file_;
  const FileLayout& layout_;
  Machine machine_;
  bool has_patterns_;
  DofProbes& into_;
  std::size_t sites_ = 0, arguments_ = 0;
  bool full_ = false;
  std::unordered_map<std::string, std::size_t> positions_;  // of provider, NUL, name
};

}  // namespace

DofProbes make_dof_probes(const DofFile& dofs, Memory& file, const FileLayout& layout,
                          Machine machine) {
  DofProbes made;
  made.problems = dofs.problems;
  if (layout.type == ET_REL) {
    if (!dofs.dofs.empty())
      made.problems.emplace_back(".SUNW_dof is not linked yet: its addresses are not final");
    return made;
  }
  Maker maker(file, layout, machine, made);
  for (const PlacedDof& placed : dofs.dofs) maker.make(placed);
  return made;
}

bool is_dropped(const Site& site, const DofFile& dofs, Memory& file, Machine machine) {
  if (dofs.dofs.empty() || !site.file_offset) return false;
  const auto code = dof::dropped_code(machine);
  std::vector<std::byte> there(code.size());
  return !code.empty() && file.read_some(*site.file_offset, there) == there.size() && there == code;
}

}  // namespace vitrine::probe
