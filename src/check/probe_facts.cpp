#include "check/probe_facts.hpp"

#include <elf.h>

#include <algorithm>
#include <array>

#include "base/limits.hpp"
#include "bpf/nop_policy.hpp"
#include "elf/section_bytes.hpp"
#include "probe/file_symbols.hpp"
#include "probe/stapsdt_note.hpp"

namespace vitrine::check {
namespace {

class SdtReader {
 public:
  SdtReader(Memory& file, const elf::File& elf, std::uint64_t size, SdtFacts& into)
      : file_(file), elf_(elf), symbols_(file, elf), into_(into) {
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
    for (const probe::NoteProblem& one : notes.problems.told) into_.problems.push_back(one.message);
    into_.notes += notes.notes.size();
    for (const probe::StapsdtNote& note : notes.notes) {
      if (into_.sites.size() >= limits::probe_notes) return;
      auto site = probe::make_site(note, layout_);
      if (!site) {
        ++into_.tombstones;
        continue;
      }
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
  SdtFacts& into_;
};

}  // namespace

SdtFacts read_sdt_facts(Memory& file, const elf::File& elf, std::uint64_t file_size) {
  SdtFacts facts;
  SdtReader(file, elf, file_size, facts).read();
  return facts;
}

DofFacts read_dof_facts(Memory& file, const elf::File& elf, std::uint64_t file_size) {
  DofFacts facts{probe::find_dof(file, elf), {}};
  facts.probes = probe::make_dof_probes(facts.file, file, {elf.type, elf.segments, file_size, {}},
                                        machine_of(elf.machine));
  return facts;
}

}  // namespace vitrine::check
