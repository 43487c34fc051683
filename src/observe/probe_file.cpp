#include "observe/probe_file.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "abi/typed_note.h"
#include "base/limits.hpp"
#include "elf/build_id.hpp"
#include "elf/functions.hpp"
#include "elf/section_bytes.hpp"
#include "probe/dof_probes.hpp"
#include "probe/packed.hpp"
#include "probe/site_address.hpp"
#include "probe/stapsdt_note.hpp"
#include "probe/typed_note.hpp"
#include "symbol/debug_file.hpp"
#include "symbol/demangle.hpp"
#include "worker/parser.hpp"

namespace vitrine::observe {
namespace {

constexpr std::string_view note_section = ".note.stapsdt";
constexpr std::string_view description_section = VITRINE_NOTE_SECTION;

struct FileQuestion {
  symbol::DebugSearch debug;
  bool functions = false;
};

template <pack::Of<FileQuestion> T>
auto fields(T& question) {
  auto& [debug, functions] = question;
  return std::tie(debug, functions);
}

/// Gathers the probes of one file.
class Reader {
 public:
  Reader(ProbeFile& into, file::FileMemory& file, const elf::File& elf,
         const symbol::DebugSearch& search)
      : into_(into), file_(file), elf_(elf), search_(search) {}

  void read(bool functions) {
    if (!read_notes(file_, elf_) && look_for_debug_file()) read_notes(*debug_->memory, debug_->elf);
    read_dof();
    explain_headers();
    sort();
    if (functions) name_functions();
    demangle_functions();
  }

 private:
  /// False: there is no section for notes of probes here.
  bool read_notes(Memory& file, const elf::File& elf) {
    probe::TypedProbes descriptions;
    const auto described = read_sections(file, elf, description_section);
    for (const auto& bytes : described) {
      const auto notes = probe::decode_typed_notes(bytes, elf.encoding);
      tell(notes.problems);
      descriptions.add(notes);
    }
    const auto announced = read_sections(file, elf, note_section);
    for (const auto& bytes : announced) {
      const auto notes = probe::decode_stapsdt_notes(bytes, elf.encoding);
      tell(notes.problems);
      add(notes, elf, descriptions);
    }
    return !announced.empty();
  }

  void read_dof() {
    const auto dofs = probe::find_dof(file_, elf_);
    auto made = probe::make_dof_probes(dofs, file_, layout(), into_.machine);
    for (const std::string& text : made.problems) problem("{}", text);
    into_.tombstones += made.left_out;
    for (probe::Probe& one : made.probes) into_.probes.push_back(std::move(one));
  }

  [[nodiscard]] probe::FileLayout layout() const {
    return {elf_.type, elf_.segments, static_cast<std::uint64_t>(file_.identity().size), {}};
  }

  /// The content of all sections of a name that have any.
  std::vector<std::vector<std::byte>> read_sections(Memory& file, const elf::File& elf,
                                                    std::string_view name) {
    std::vector<std::vector<std::byte>> contents;
    for (const elf::Section& section : elf.sections) {
      if (section.type == SHT_NOBITS || elf.name(section) != name) continue;
      if (bytes_left_ == 0) break;  // sections of one name may be many, all of the same bytes
      auto read = elf::read_section(file, elf, section, bytes_left_);
      if (!read || !read->problem.empty())
        problem("{}: {}", name, read ? read->problem : read.error().message);
      if (!read) continue;
      bytes_left_ -= std::min<std::uint64_t>(bytes_left_, read->bytes.size() + 1);
      contents.push_back(std::move(read->bytes));
    }
    return contents;
  }

  void add(const probe::StapsdtNotes& notes, const elf::File& notes_from,
           probe::TypedProbes& descriptions) {
    probe::NoteProblems problems;
    const elf::Section* base = notes_from.find(".stapsdt.base");
    probe::FileLayout place = layout();
    if (base != nullptr) place.stapsdt_base = base->address;
    // All sites of a probe are counted before the first is made: large files have thousands.
    std::vector<std::size_t> positions;
    std::vector<std::size_t> counts;
    positions.reserve(notes.notes.size());
    for (const probe::StapsdtNote& note : notes.notes) {
      positions.push_back(position_of(note.provider, note.name));
      counts.resize(into_.probes.size());
      ++counts[positions.back()];
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
      auto& sites = into_.probes[i].sites;
      sites.reserve(sites.size() + counts[i]);
    }
    for (std::size_t i = 0; i < positions.size(); ++i) {
      auto site = probe::make_site(notes.notes[i], place);
      if (!site) {
        ++into_.tombstones;
        continue;
      }
      site->types = descriptions.of(notes.notes[i], site->arguments.size(), problems);
      into_.probes[positions[i]].sites.push_back(std::move(*site));
    }
    tell(problems);
  }

  void tell(const probe::NoteProblems& problems) {
    for (const probe::NoteProblem& one : problems.told) problem("{}", one.message);
    if (problems.left_out > 0) problem("{} more notes are invalid", problems.left_out);
  }

  std::size_t position_of(std::string_view provider, std::string_view name) {
    std::string key(provider);
    key.append(1, '\0').append(name);  // which neither has
    const auto [known, is_new] = positions_.try_emplace(std::move(key), into_.probes.size());
    if (is_new)
      into_.probes.push_back({probe::Kind::sdt, std::string(provider), std::string(name), {}, {}});
    return known->second;
  }

  bool look_for_debug_file() {
    debug_ = symbol::find_debug_file(file_, elf_, into_.build_id, search_);
    return debug_ != nullptr;
  }

  void explain_headers() {
    for (const std::string& text : elf_.problems) into_.problems.push_back(text);
    if (elf_.type == ET_CORE)
      problem("it is a core file: the probes are in its program files");
    else if (elf_.sections.empty() && elf_.problems.empty() && into_.probes.empty())
      problem(
          "it has no section headers, so its probe notes cannot be found (sstrip and UPX remove "
          "them)");
  }

  /// By name, each with its sites by address. A site that was announced twice alike is one.
  void sort() {
    auto& probes = into_.probes;
    std::erase_if(
        probes, [](const probe::Probe& one) { return one.sites.empty() && one.questions.empty(); });
    std::sort(probes.begin(), probes.end(), [](const auto& a, const auto& b) {
      return std::tie(a.provider, a.name, a.kind) < std::tie(b.provider, b.name, b.kind);
    });
    for (probe::Probe& one : probes) {
      sort(one.sites);
      sort(one.questions);
    }
  }

  void sort(std::vector<probe::Site>& sites) const {
    const auto key = [](const probe::Site& site) {
      return std::tie(site.address, site.semaphore, site.arguments);
    };
    const auto before = [&](const auto& a, const auto& b) { return key(a) < key(b); };
    if (!std::is_sorted(sites.begin(), sites.end(), before))
      std::sort(sites.begin(), sites.end(), before);
    if (elf_.type == ET_REL) return;  // no site has an address yet
    sites.erase(std::unique(sites.begin(), sites.end(),
                            [&](const auto& a, const auto& b) { return key(a) == key(b); }),
                sites.end());
  }

  void name_functions() {
    std::vector<probe::Site*> sites;
    std::vector<Address> addresses;
    for (probe::Probe& probe : into_.probes)
      for (auto* list : {&probe.sites, &probe.questions})
        for (probe::Site& site : *list) {
          sites.push_back(&site);
          addresses.push_back(site.address);
        }
    if (sites.empty() || elf_.type == ET_REL) return;
    take_names(sites, elf::functions_around(file_, elf_, addresses));
    const bool complete = std::none_of(
        sites.begin(), sites.end(), [](const probe::Site* site) { return site->function.empty(); });
    if (complete || (debug_ == nullptr && !look_for_debug_file())) return;
    take_names(sites, elf::functions_around(*debug_->memory, debug_->elf, addresses));
  }

  void demangle_functions() {
    std::unordered_map<std::string_view, std::string> known;  // many sites are in one function
    for (probe::Probe& probe : into_.probes)
      for (auto* list : {&probe.sites, &probe.questions})
        for (probe::Site& site : *list) {
          const auto [name, is_new] = known.try_emplace(site.function);
          if (is_new) name->second = symbol::demangled(site.function);
          if (name->second != site.function) site.demangled = name->second;
        }
  }

  static void take_names(const std::vector<probe::Site*>& sites,
                         std::vector<elf::NamedFunction> found) {
    for (std::size_t i = 0; i < sites.size(); ++i)
      if (!found[i].name.empty()) sites[i]->function = std::move(found[i].name);
  }

  template <class... Args>
  void problem(fmt::format_string<Args...> text, Args&&... args) {
    if (into_.problems.size() < limits::search_notes)
      into_.problems.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  ProbeFile& into_;
  file::FileMemory& file_;
  const elf::File& elf_;
  const symbol::DebugSearch& search_;
  std::unique_ptr<symbol::DebugFile> debug_;
  std::uint64_t bytes_left_ = limits::note_section;  // to read of notes, of all sections together
  std::unordered_map<std::string, std::size_t> positions_;  // of provider, NUL, name
};

/// In a worker.
Result<ProbeFile> parse_probes(const FileQuestion& question, FileDescriptor descriptor) {
  auto file = TRY(file::FileMemory::from(std::move(descriptor)));
  const auto elf = TRY(elf::read_file(*file));
  ProbeFile found;
  found.build_id = elf::hex_build_id(*file, elf);
  found.encoding = elf.encoding;
  found.machine = machine_of(elf.machine);
  for (const elf::Segment& segment : elf.segments)
    if (segment.type == PT_LOAD && (segment.flags & PF_X) != 0) found.code.push_back(segment);
  Reader(found, *file, elf, question.debug).read(question.functions);
  return found;
}

}  // namespace

template <pack::Of<ProbeFile> T>
auto fields(T& found) {
  auto& [path, file, build_id, encoding, machine, code, probes, tombstones, problems] = found;
  // The file is who asked's.
  return std::tie(path, build_id, encoding, machine, code, probes, tombstones, problems);
}

Result<ProbeFile> read_probe_file(std::shared_ptr<file::FileMemory> file, std::string path,
                                  const symbol::DebugPlaces& places, const ProbeDetail& detail) {
  auto found = TRY(worker::Parser::of_this_thread().ask<&parse_probes>(
      {places.search(), detail.functions}, file->descriptor(), places.open()));
  found.path = std::move(path);
  found.file = std::move(file);
  return found;
}

}  // namespace vitrine::observe
