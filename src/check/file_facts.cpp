#include "check/file_facts.hpp"

#include <elf.h>

#include <algorithm>
#include <array>

#include "abi/custom_labels.hpp"
#include "abi/thread_context.hpp"
#include "base/limits.hpp"
#include "bpf/nop_policy.hpp"
#include "elf/file.hpp"
#include "elf/image.hpp"
#include "elf/relocations.hpp"
#include "elf/symbols.hpp"
#include "probe/file_symbols.hpp"
#include "probe/notes.hpp"

namespace vitrine::check {
namespace {

constexpr std::array<std::string_view, 4> names{
    abi::custom_labels::version_symbol, abi::custom_labels::v0_slot_symbol,
    abi::custom_labels::v1_slot_symbol, abi::thread_context::slot_symbol};

class Reader {
 public:
  Reader(Memory& file, const elf::File& elf, LabelFacts& into)
      : file_(file), elf_(elf), memory_(file, elf), into_(into) {}

  void read() {
    into_.v0.name = abi::custom_labels::v0_slot_symbol;
    into_.v0.bytes = sizeof(abi::custom_labels::SetV0);
    into_.v1.name = abi::custom_labels::v1_slot_symbol;
    into_.thread_context.name = abi::thread_context::slot_symbol;
    const auto image = memory_.image();
    if (!image) {
      into_.unsupported = image.error().message;
      return;
    }
    if (const auto block = elf::tls_segment(*image))
      into_.block = *block;
    else
      into_.broken = block.error().message;
    read_exported(*image);
    read_symtab();
    read_version();
  }

 private:
  [[nodiscard]] std::array<SymbolFacts*, names.size()> facts() const {
    return {&into_.version, &into_.v0, &into_.v1, &into_.thread_context};
  }

  void read_exported(const elf::Image& image) {
    const auto dynamic = elf::read_dynamic(memory_, image);
    if (!dynamic) {
      if (dynamic.error().code != ErrorCode::not_found) into_.broken = dynamic.error().message;
      return;
    }
    const auto found = elf::find_symbols(memory_, *dynamic, names);
    if (!found) {
      // A static-pie without exports has no hash table.
      if (found.error().code != ErrorCode::not_found) into_.broken = found.error().message;
      return;
    }
    into_.exports = true;
    for (std::size_t i = 0; i < names.size(); ++i) facts()[i]->exported = (*found)[i];
    for (SlotFacts* slot : {&into_.v0, &into_.v1, &into_.thread_context})
      if (slot->exported) read_accesses(image, *dynamic, *slot);
  }

  void read_accesses(const elf::Image& image, const elf::Dynamic& dynamic, SlotFacts& slot) {
    const auto types = elf::tls_relocation_types(elf_.machine);
    const auto found = elf::tls_relocations(memory_, image, dynamic, types, *slot.exported);
    if (!found) {
      into_.broken = found.error().message;
      return;
    }
    const auto has = [&](std::uint32_t type) {
      return std::ranges::any_of(*found, [&](const auto& one) { return one.type == type; });
    };
    slot.named_descriptor = std::ranges::any_of(
        *found, [&](const auto& one) { return one.type == types.descriptor && one.symbol != 0; });
    if (has(types.descriptor)) slot.accesses.push_back(Access::descriptor);
    if (has(types.module_id)) slot.accesses.push_back(Access::general_dynamic);
    if (has(types.tp_offset)) slot.accesses.push_back(Access::initial_exec);
  }

  void read_symtab() {
    const auto found = elf::find_file_symbols(file_, names);
    into_.symtab = found || found.error().code != ErrorCode::not_found;
    if (!found) return;
    for (std::size_t i = 0; i < names.size(); ++i) facts()[i]->inside = (*found)[i];
  }

  void read_version() {
    const elf::Symbol* symbol = into_.version.any();
    if (symbol == nullptr) return;
    VersionFacts& version = into_.version;
    constexpr std::uint64_t bytes = abi::custom_labels::version_size;
    const elf::AddressRange range{symbol->value, symbol->value + bytes};
    const auto written = elf::dynamic_relocations(file_, elf_, {&range, 1}).relocations;
    // The program refers to a library's version by its address: the linker made room for a copy.
    const std::uint32_t copy = elf_.machine == EM_X86_64 ? R_X86_64_COPY : R_AARCH64_COPY;
    if (std::ranges::any_of(written, [&](const auto& one) { return one.type == copy; })) {
      static_cast<SymbolFacts&>(version) = {};
      return;
    }
    if (const auto value = memory_.read_value<std::uint32_t>(symbol->value, "the version"))
      version.value = *value;
    version.file_offset = elf::file_offset(elf_.segments, symbol->value, bytes, 0);
    version.writable =
        is_in(PT_LOAD, PF_W, symbol->value) && !is_in(PT_GNU_RELRO, 0, symbol->value);
    version.relocated = !written.empty();
  }

  [[nodiscard]] bool is_in(std::uint32_t type, std::uint32_t flags, Address address) const {
    return std::ranges::any_of(elf_.segments, [&](const elf::Segment& one) {
      return one.type == type && (one.flags & flags) == flags && address >= one.address &&
             address - one.address < one.memory_size;
    });
  }

  Memory& file_;
  const elf::File& elf_;
  elf::LoadedFile memory_;
  LabelFacts& into_;
};

}  // namespace

std::string_view name(Access access) {
  switch (access) {
    case Access::descriptor:
      return "TLSDESC";
    case Access::general_dynamic:
      return "GD";
    case Access::initial_exec:
      return "IE";
  }
  return "unknown";
}

bool LabelFacts::is_v0() const {
  if (asked_v0) return *asked_v0;
  if (v0.there() != v1.there()) return v0.there();
  if (v0.exported.has_value() != v1.exported.has_value()) return v0.exported.has_value();
  return prefer_v0;
}

LabelFacts read_label_facts(Memory& file, const elf::File& elf) {
  LabelFacts facts;
  Reader(file, elf, facts).read();
  return facts;
}

namespace {

class SdtReader {
 public:
  SdtReader(Memory& file, const elf::File& elf, std::uint64_t size, const DofFacts& dof,
            SdtFacts& into)
      : file_(file), elf_(elf), symbols_(file, elf), dof_(dof), into_(into) {
    layout_ = {elf.type, elf.segments, size, {}};
    machine_ = machine_of(elf.machine);
    if (const elf::Section* base = elf.find(".stapsdt.base")) layout_.stapsdt_base = base->address;
  }

  void read() {
    into_.base_section = layout_.stapsdt_base.has_value();
    into_.semaphore_section = elf_.find(".probes") != nullptr;
    std::uint64_t left = limits::note_section;  // of all sections: they may be of the same bytes
    for (const elf::Section& section : elf_.sections) {
      if (elf_.name(section) != ".note.stapsdt" || section.type == SHT_NOBITS || left == 0)
        continue;
      into_.sections.push_back(section);
      const auto bytes = elf::read_section(file_, elf_, section, left);
      if (!bytes || !bytes->problem.empty())
        into_.problems.push_back(bytes ? bytes->problem : bytes.error().message);
      if (!bytes) continue;
      left -= std::min<std::uint64_t>(left, bytes->bytes.size() + 1);
      add(probe::decode_stapsdt_notes(bytes->bytes, elf_.encoding));
    }
    if (!into_.sites.empty() && elf_.type != ET_REL) read_exported();
  }

 private:
  void add(const probe::StapsdtNotes& notes) {
    for (const probe::NoteProblem& one : notes.problems.list) into_.problems.push_back(one.message);
    into_.notes += notes.notes.size();
    for (const probe::StapsdtNote& note : notes.notes) {
      if (into_.sites.size() >= limits::probe_notes) return;
      auto site = probe::make_site(note, layout_);
      if (!site) {
        ++into_.tombstones;
        continue;
      }
      if (probe::is_dropped(*site, dof_.file, file_, machine_)) continue;
      SdtSite one{
          std::string(note.provider), std::string(note.name), note.base, std::move(*site), {}};
      read_code(one);
      compile(one);
      into_.sites.push_back(std::move(one));
    }
  }

  void read_code(SdtSite& one) {
    if (!one.site.file_offset) return;
    std::array<std::byte, bpf::site_bytes> code{};
    const std::size_t got = file_.read_some(*one.site.file_offset, code);
    one.code.assign(code.begin(), code.begin() + static_cast<std::ptrdiff_t>(got));
  }

  void compile(const SdtSite& one) {
    auto symbols = symbols_.at(one.site.address);
    for (std::size_t i = 0; i < one.site.arguments.size(); ++i) {
      if (into_.arguments.size() >= limits::note_problems) return;
      auto operand =
          probe::compile_argument(one.site.arguments[i], machine_, one.site.address, &symbols);
      if (!operand) into_.arguments.push_back({into_.sites.size(), i, std::move(operand.error())});
    }
  }

  void read_exported() {
    const auto table = elf::SymbolTable::read(file_, elf_, SHT_DYNSYM);
    if (!table) return;
    for (std::size_t i = 0; i < table->size(); ++i) {
      const elf::TableSymbol symbol = table->at(i);
      if (symbol.section != SHN_UNDEF && symbol.type == STT_OBJECT &&
          symbol.visibility == STV_DEFAULT)
        into_.exported.push_back(symbol.value);
    }
    std::ranges::sort(into_.exported);
  }

  Memory& file_;
  const elf::File& elf_;
  probe::FileLayout layout_;
  Machine machine_ = Machine::other;
  probe::FileSymbols symbols_;
  const DofFacts& dof_;
  SdtFacts& into_;
};

}  // namespace

SdtFacts read_sdt_facts(Memory& file, const elf::File& elf, std::uint64_t file_size,
                        const DofFacts& dof) {
  SdtFacts facts;
  SdtReader(file, elf, file_size, dof, facts).read();
  return facts;
}

DofFacts read_dof_facts(Memory& file, const elf::File& elf, std::uint64_t file_size) {
  DofFacts facts{probe::find_dof(file, elf), {}};
  facts.probes = probe::make_dof_probes(facts.file, file, {elf.type, elf.segments, file_size, {}},
                                        machine_of(elf.machine));
  return facts;
}

namespace {

constexpr std::string_view library = "libcustomlabels";

void find_profiles(FileSubject& subject) {
  const LabelFacts& labels = subject.labels;
  const auto add = [&](Profile profile, bool usable, bool traces) {
    if (usable) subject.published.add(profile);
    if (usable || traces) subject.intended.add(profile);
  };
  const bool named_v0 = is_v0_library_name(subject.file_name);
  const bool named_v1 = is_v1_library_name(subject.file_name);
  const bool no_slot = !labels.v0.there() && !labels.v1.there();
  if (!subject.relocatable) {
    add(Profile::custom_labels_v0, labels.v0.exported.has_value(),
        labels.v0.there() || (no_slot && labels.prefer_v0 && labels.version.there()));
    // What is called like a label library, or has its version, was meant to be one.
    const bool traces = no_slot && !labels.prefer_v0 &&
                        (labels.version.exported || ((named_v0 || named_v1) && !subject.program));
    add(Profile::custom_labels_v1, labels.v1.exported.has_value(), labels.v1.there() || traces);
    add(Profile::otep_4947, labels.thread_context.exported.has_value(),
        labels.thread_context.there());
  }
  add(Profile::sdt, !subject.sdt.sites.empty(),
      !subject.sdt.sections.empty() || subject.sdt.base_section ||
          // Semaphores of DTrace's kind are in a section of the same name.
          (subject.sdt.semaphore_section && subject.dof.file.dofs.empty()));
  // What a search of the segments could not read may have been anything.
  add(Profile::dof, !subject.dof.file.dofs.empty(),
      !subject.dof.file.problems.empty() && !subject.dof.file.searched);
}

}  // namespace

bool is_v0_library_name(std::string_view file_name) {
  const std::size_t at = file_name.find(library);
  return at != file_name.npos && file_name.find(".so", at + library.size()) != file_name.npos;
}

bool is_v1_library_name(std::string_view file_name) {
  return (file_name.find(library) != file_name.npos && file_name.ends_with(".so")) ||
         file_name.ends_with("customlabels.node");
}

Result<std::unique_ptr<FileSubject>> FileSubject::of(FileDescriptor opened, std::string path,
                                                     std::string file_name) {
  auto subject = std::make_unique<FileSubject>();
  subject->path = std::move(path);
  subject->file_name = std::move(file_name);
  subject->file = TRY(vitrine::sandbox::FileMemory::from(std::move(opened)));
  Memory& memory = *subject->file;
  auto elf = TRY(elf::read_file(memory));
  subject->elf = std::move(elf);
  subject->program = elf::is_program(memory, subject->elf);
  subject->relocatable = subject->elf.type == ET_REL;
  const auto size = static_cast<std::uint64_t>(subject->file->identity().size);
  subject->labels = read_label_facts(memory, subject->elf);
  subject->labels.prefer_v0 = subject->labels.version.value == 0U;
  subject->dof = read_dof_facts(memory, subject->elf, size);
  subject->sdt = read_sdt_facts(memory, subject->elf, size, subject->dof);
  find_profiles(*subject);
  return subject;
}

}  // namespace vitrine::check
