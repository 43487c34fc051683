#include "usdt/probe_object.hpp"

#include <elf.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "abi/dof.h"
#include "base/text.hpp"
#include "dof/writer.hpp"
#include "probe/types.hpp"
#include "usdt/definition.hpp"
#include "usdt/machine.hpp"
#include "usdt/object_writer.hpp"

namespace vitrine::usdt {
namespace {

constexpr std::uint32_t sht_sunw_dof = 0x6ffffff4;
constexpr std::uint32_t shf_gnu_retain = 1U << 21;
constexpr std::uint32_t word_bytes = 8;
// Semaphores begin a page. lld and mold map the page of the file where constant data ends and other
// data begins twice, and while both are writable, before the dynamic linker has run, the kernel
// counts in the first: a program that is traced from its start would stay disabled.
std::uint32_t page_bytes(const ObjectMachine& machine) {
  return machine.machine == Machine::aarch64 ? 65536 : 4096;  // the largest
}
constexpr std::string_view note_owner{"stapsdt\0", 8};
constexpr std::uint32_t note_type = 3;
constexpr std::uint32_t own_features = 3;  // of stubs: IBT and SHSTK, or BTI and PAC

/// Stable. Each is moved once: there are tens of thousands.
void sort_by_probe(std::vector<FunctionSites>& functions) {
  std::vector<std::size_t> order(functions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t at) {
    return std::pair(functions[at].provider, functions[at].probe);
  });
  std::vector<FunctionSites> sorted;
  sorted.reserve(functions.size());
  for (const std::size_t at : order) sorted.push_back(std::move(functions[at]));
  functions = std::move(sorted);
}

class Builder {
 public:
  Builder(const Definition& definition, ProbeObjectParts parts)
      : definition_(definition),
        parts_(std::move(parts)),
        machine_(*parts_.machine),
        writer_(machine_),
        frames_(machine_) {}

  Result<std::vector<std::byte>> build() {
    sort_by_probe(parts_.functions);
    // gdb takes the addresses in a section of that type for absolute: with notes it needs none.
    dof_section_ = writer_.add(NewSection{".SUNW_dof",
                                          parts_.sdt ? std::uint32_t{SHT_PROGBITS} : sht_sunw_dof,
                                          SHF_ALLOC | shf_gnu_retain,
                                          word_bytes,
                                          {}});
    if (parts_.sdt) begin_sdt_notes();
    if (parts_.sdt && !parts_.weak_aliases)
      dropped_section_ = writer_.add(NewSection{".text.vitrine_dropped",
                                                SHT_PROGBITS,
                                                SHF_ALLOC | SHF_EXECINSTR | shf_gnu_retain,
                                                16,
                                                {}});
    frame_section_ =
        writer_.add(NewSection{".eh_frame", SHT_PROGBITS, SHF_ALLOC, frames_.alignment(), {}});
    semaphore_section_ = writer_.add(
        NewSection{".probes", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, page_bytes(machine_), {}});
    for (std::uint32_t i = 0; i < definition_.providers.size(); ++i) add_provider(i);
    auto bytes = TRY(dof::write(object_));
    place_dof(std::move(bytes));
    writer_.set_content(semaphore_section_, std::vector<std::byte>(semaphores_ * 2));
    writer_.set_content(frame_section_, frames_.take());
    if (parts_.sdt) writer_.set_content(sdt_section_, std::move(sdt_notes_));
    if (dropped_section_ != 0) writer_.set_content(dropped_section_, std::move(dropped_));
    add_notes();
    return writer_.finish();
  }

 private:
  void add_provider(std::uint32_t index) {
    const Provider& declared = definition_.providers[index];
    if (declared.probes.empty()) return;
    dof::Provider provider;
    provider.name = declared.name;
    provider.stabilities = declared.stabilities;
    provider_ = &provider;
    for (std::uint32_t i = 0; i < declared.probes.size(); ++i) {
      const Probe& probe = declared.probes[i];
      for (; next_ < parts_.functions.size() && parts_.functions[next_].provider == index &&
             parts_.functions[next_].probe == i;
           ++next_) {
        FunctionSites& in = parts_.functions[next_];
        const std::uint32_t function = alias(in.alias);
        for (std::size_t site = 0; site < in.at_sites.size(); ++site)
          sdt_sites_.push_back({site_alias(in.at_sites[site]), 0, in.jumps[site] != 0});
        add_record(probe, in.function, function, std::move(in.offsets),
                   std::move(in.enabled_offsets));
      }
      add_stub(probe, probe_symbol(declared, probe), false);
      add_stub(probe, enabled_symbol(declared, probe), true);
      add_semaphore(probe, semaphore_symbol(declared, probe));
      if (parts_.sdt) add_sdt_notes(declared, probe);
      sdt_sites_.clear();
      end_dropped(probe_symbol(declared, probe));
    }
    object_.providers.push_back(std::move(provider));
  }

  void add_record(const Probe& probe, std::string_view function, std::uint32_t symbol,
                  std::vector<std::uint32_t> offsets, std::vector<std::uint32_t> enabled) {
    dof::Record record;
    record.name = probe.name;
    record.function = dof::function_name(function);
    record.prototype = probe.prototype;
    record.offsets = std::move(offsets);
    record.enabled_offsets = std::move(enabled);
    record.relocation = dof::Relocation::own_address;
    for (dof::Record& part : dof::split(record)) {
      provider_->records.push_back(std::move(part));
      record_symbols_.push_back(symbol);
    }
  }

  /// The function's name in its own object; where that copy of it did not get into the link (one of
  /// a discarded group, an archive member that was not needed), this weak one shows it: it is the start of
  /// the DOF, where no function can be. A weak alias has no second definition, which could be
  /// taken before it: then the linker makes it 0, or on aarch64 the word's own place.
  std::uint32_t alias(const std::string& name) {
    const auto [at, is_new] = aliases_.try_emplace(name, 0);
    if (is_new)
      at->second = writer_.add(DefinedSymbol{name, parts_.weak_aliases ? 0 : dof_section_, 0, 0,
                                             STT_NOTYPE, STB_WEAK, STV_HIDDEN});
    return at->second;
  }

  /// The name of a site. Where its function did not get into the link, a note leads to code that never
  /// runs: tools attach to all notes of a probe, or to none, and refuse addresses without code. (A
  /// function's alias and an offset would be any place after what shows that it is missing.)
  std::uint32_t site_alias(const std::string& name) {
    return writer_.add(DefinedSymbol{name, parts_.weak_aliases ? 0 : dropped_section_,
                                     parts_.weak_aliases ? 0 : dropped_.size(), 0, STT_NOTYPE,
                                     STB_WEAK, STV_HIDDEN});
  }

  /// Each probe has its own such code: the kernel refuses one address with two semaphores. The linker must
  /// not fold that of two probe objects, either: as in make_stub().
  void end_dropped(std::string_view symbol) {
    const auto code = dof::dropped_code(machine_.machine);
    dropped_.insert(dropped_.end(), code.begin(), code.end());
    append(dropped_, fnv1a<std::uint64_t>(symbol));
  }

  void add_stub(const Probe& probe, const std::string& name, bool enabled) {
    const bool asks = enabled && !parts_.pointer_protocol;
    Stub stub = make_stub(machine_, asks ? dof::Use::enabled_register : dof::Use::fire, name);
    const std::uint32_t symbol =
        writer_.add(DefinedSymbol{name, 0, 0, stub.data, STT_FUNC, STB_WEAK, STV_HIDDEN});
    const std::uint32_t group = writer_.add_group(symbol);
    const std::uint32_t section = writer_.add(NewSection{
        ".text." + name, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 16, std::move(stub.code)});
    writer_.add_to_group(group, section);
    writer_.define(symbol, section);
    if (machine_.machine == Machine::aarch64) {
      writer_.add(DefinedSymbol{"$x", section, 0, 0, STT_NOTYPE, STB_LOCAL, STV_DEFAULT});
      writer_.add(DefinedSymbol{"$d", section, stub.data, 0, STT_NOTYPE, STB_LOCAL, STV_DEFAULT});
    }
    // By the section, not by the name: another object's stub may be the one that is linked.
    writer_.relocate(
        frame_section_, frames_.add(stub.data), machine_.relative_32,
        writer_.add(DefinedSymbol{"", section, 0, 0, STT_SECTION, STB_LOCAL, STV_DEFAULT}));
    std::vector<std::uint32_t> site{stub.site}, none;
    if (!enabled) sdt_sites_.push_back({symbol, stub.site, true});
    if (enabled)
      add_record(probe, name, symbol, std::move(none), std::move(site));
    else
      add_record(probe, name, symbol, std::move(site), std::move(none));
  }

  void add_semaphore(const Probe& probe, const std::string& name) {
    provider_->semaphores.push_back({probe.name, 0, 0});
    semaphore_symbols_.push_back(writer_.add(DefinedSymbol{
        name, semaphore_section_, 2 * semaphores_++, 2, STT_OBJECT, STB_WEAK, STV_HIDDEN}));
  }

  void place_dof(std::vector<std::byte> bytes) {
    const std::uint32_t start = writer_.add(DefinedSymbol{
        "__SUNW_dof", dof_section_, 0, bytes.size(), STT_OBJECT, STB_LOCAL, STV_DEFAULT});
    writer_.set_content(dof_section_, std::move(bytes));
    std::size_t record_index = 0, semaphore_index = 0;
    for (const dof::Provider& provider : object_.providers) {
      for (const dof::Record& record : provider.records)
        writer_.relocate(dof_section_, record.word_offset, machine_.relative,
                         record_symbols_[record_index++]);
      for (const dof::Semaphore& semaphore : provider.semaphores)
        writer_.relocate(dof_section_, semaphore.word_offset, machine_.relative,
                         semaphore_symbols_[semaphore_index++]);
    }
    if (parts_.registration) add_registration(start);
  }

  /// The constructor finds the DOFs of a module in this section, by its linker-made bounds.
  void add_registration(std::uint32_t dof) {
    const std::uint32_t section =
        writer_.add(NewSection{"vitrine_usdt_dofs", SHT_PROGBITS, SHF_ALLOC | shf_gnu_retain,
                               word_bytes, std::vector<std::byte>(word_bytes)});
    writer_.relocate(section, 0, machine_.relative, dof);
    const std::uint32_t constructor = writer_.add(
        DefinedSymbol{"vitrine_usdt_register", 0, 0, 0, STT_NOTYPE, STB_GLOBAL, STV_HIDDEN});
    writer_.relocate(section, 0, 0, constructor);  // the link fails without it
  }

  /// What the addresses in notes are relative to: prelink moves it with them.
  void begin_sdt_notes() {
    sdt_section_ = writer_.add(NewSection{".note.stapsdt", SHT_NOTE, 0, 4, {}});
    const std::uint32_t signature =
        writer_.add(DefinedSymbol{".stapsdt.base", 0, 0, 0, STT_NOTYPE, STB_LOCAL, STV_DEFAULT});
    const std::uint32_t group = writer_.add_group(signature);  // gold wants it before its sections
    const std::uint32_t section = writer_.add(NewSection{
        ".stapsdt.base", SHT_PROGBITS, SHF_ALLOC | shf_gnu_retain, 1, std::vector<std::byte>(1)});
    writer_.add_to_group(group, section);
    writer_.define(signature, section);
    sdt_base_ = writer_.add(
        DefinedSymbol{"_.stapsdt.base", section, 0, 1, STT_NOTYPE, STB_WEAK, STV_HIDDEN});
  }

  /// The sites of a probe as <sys/sdt.h> would have noted them, for tools that read no DOF. A name
  /// is spelt as the definition has it: other tools know no '-' in it.
  void add_sdt_notes(const Provider& declared, const Probe& probe) {
    const std::string names = declared.name + '\0' + probe.identifier + '\0';
    std::array<std::string, 2> texts;  // by SdtSite::is_called; empty until a site needs it
    const std::size_t word = machine_.wide ? 8 : 4;
    for (const SdtSite& site : sdt_sites_) {
      std::string& text = texts[site.is_called ? 1 : 0];
      if (text.empty()) text = names + sdt_arguments(probe.prototype, site.is_called) + '\0';
      append(sdt_notes_, static_cast<std::uint32_t>(note_owner.size()));
      append(sdt_notes_, static_cast<std::uint32_t>(3 * word + text.size()));
      append(sdt_notes_, note_type);
      add_text(note_owner);
      add_address(site.function, site.offset, word);
      add_address(sdt_base_, 0, word);
      add_address(semaphore_symbols_.back(), 0, word);
      add_text(text);
      sdt_notes_.resize((sdt_notes_.size() + 3) / 4 * 4);
    }
  }

  void add_text(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    sdt_notes_.insert(sdt_notes_.end(), bytes.begin(), bytes.end());
  }

  void add_address(std::uint32_t symbol, std::uint32_t offset, std::size_t word) {
    writer_.relocate(sdt_section_, sdt_notes_.size(), machine_.absolute, symbol, offset);
    const std::uint64_t in_word = machine_.addends ? 0 : offset;
    const auto bytes = std::as_bytes(std::span(&in_word, 1)).first(word);
    sdt_notes_.insert(sdt_notes_.end(), bytes.begin(), bytes.end());
  }

  /// Up to the first argument whose place is not known.
  [[nodiscard]] std::string sdt_arguments(const dof::Prototype& prototype, bool is_called) const {
    const auto call = probe::call_arguments(
        {prototype.native, prototype.translated, prototype.argument_map, is_called},
        machine_.machine);
    std::string text;
    for (const std::string& operand : call.operands) {
      if (operand.starts_with('?')) break;
      text += (text.empty() ? "" : " ") + operand;
    }
    return text;
  }

  void add_notes() {
    parts_.features &= own_features;
    if (parts_.features != 0)
      writer_.add(NewSection{".note.gnu.property", SHT_NOTE, SHF_ALLOC, machine_.wide ? 8U : 4U,
                             property_note(machine_, parts_.features)});
    writer_.add(NewSection{".note.GNU-stack", SHT_PROGBITS, 0, 1, {}});
  }

  const Definition& definition_;
  ProbeObjectParts parts_;
  const ObjectMachine& machine_;
  ObjectWriter writer_;
  StubFrames frames_;
  dof::Object object_{
      machine_.wide ? dof::Model::lp64 : dof::Model::ilp32,
      static_cast<std::uint8_t>(parts_.pointer_protocol ? VITRINE_DOF_VERSION_ENABLED_POINTER
                                                        : VITRINE_DOF_VERSION_ENABLED_REGISTER),
      0,
      0,
      0,
      {},
      {}};
  dof::Provider* provider_ = nullptr;  ///< the one being added
  std::uint32_t dof_section_ = 0, semaphore_section_ = 0, frame_section_ = 0;
  std::uint32_t dropped_section_ = 0;  ///< 0: none
  std::vector<std::byte> dropped_;     ///< its content
  std::size_t next_ = 0;               ///< of parts_.functions
  std::size_t semaphores_ = 0;
  std::unordered_map<std::string, std::uint32_t> aliases_;
  struct SdtSite {
    std::uint32_t function;  ///< symbol
    std::uint32_t offset;
    bool is_called;  ///< a return address is on the stack
  };
  std::vector<SdtSite> sdt_sites_;  ///< of the probe that is being added
  std::vector<std::byte> sdt_notes_;
  std::uint32_t sdt_section_ = 0, sdt_base_ = 0;
  std::vector<std::uint32_t> record_symbols_, semaphore_symbols_;  ///< in the DOF's order
};

}  // namespace

Result<std::vector<std::byte>> probe_object(const Definition& definition, ProbeObjectParts parts) {
  return Builder(definition, std::move(parts)).build();
}

}  // namespace vitrine::usdt
