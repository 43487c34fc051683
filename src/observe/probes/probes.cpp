#include "observe/probes/probes.hpp"

#include <elf.h>
#include <endian.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "abi/typed_note.h"
#include "base/limits.hpp"
#include "elf/file.hpp"
#include "elf/notes.hpp"
#include "elf/symbols.hpp"
#include "observe/probes/functions.hpp"
#include "probe/dof_probes.hpp"
#include "probe/notes.hpp"
#include "probe/packed.hpp"
#include "probe/site_address.hpp"
#include "probe/typed_note.hpp"
#include "sandbox/files.hpp"
#include "sandbox/worker.hpp"
#include "symbol/debug_file.hpp"
#include "symbol/demangle.hpp"
#include "target/mapped_files.hpp"
#include "target/proc_file.hpp"
#include "target/process.hpp"

namespace vitrine::observe {
namespace {

/// The kernel's path of an open file.
std::string path_of(const sandbox::FileMemory& file) {
  std::string path(limits::name_bytes, '\0');
  const auto link = fmt::format("/proc/self/fd/{}", file.original());
  const ssize_t n = ::readlink(link.c_str(), path.data(), path.size());
  path.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return path;
}

bool same_file(int a, int b) {
  auto one = sandbox::place_identity(a), other = sandbox::place_identity(b);
  one.mount = other.mount = 0;
  return one == other && one != sandbox::PlaceIdentity();
}

/// The biases that explain how a file's code lies in memory; as a rule one.
std::set<Address> biases(const ProbeFile& file, const target::MappedFile& mapped) {
  std::set<Address> found;
  for (const target::Mapping& part : mapped.parts)
    for (const elf::Segment& segment : file.code)
      if (part.offset < segment.offset + segment.file_size &&
          segment.offset < part.offset + (part.end - part.start))
        found.insert(part.start - part.offset + segment.offset - segment.address);
  return found;
}

}  // namespace

Result<std::shared_ptr<const ProbeFile>> ProbeFiles::open(const std::string& path) {
  auto file = TRY(sandbox::open_regular_at(AT_FDCWD, path));
  return take(std::move(file), path, {});
}

Result<std::shared_ptr<const ProbeFile>> ProbeFiles::take(sandbox::OpenedFile file,
                                                          const std::string& path,
                                                          std::vector<int> roots) {
  auto memory = TRY_WHILE(path, sandbox::FileMemory::from(std::move(file)));
  symbol::DebugPlaces places{{}, roots.empty() ? path_of(*memory) : path};
  places.roots = std::move(roots);
  const Key identity(memory->identity(), places.key());
  const auto known = known_.find(identity);
  if (known != known_.end()) return known->second;
  auto found = read_probe_file(std::move(memory), path, places, detail_);
  if (!found && found.error().code == ErrorCode::limit &&
      sandbox::Parser::of_this_thread().has_short_time())
    return fail_while(path, std::move(found.error()));
  if (!found)
    return known_.emplace(identity, fail_while(path, std::move(found.error()))).first->second;
  if (!detail_.wanted.empty())
    if (auto added = add_functions(*found, *found->file, detail_.wanted, places, detail_.most);
        !added) {
      // A file that no pattern speaks of is not what the user asked for.
      auto failed = fail_while(path, std::move(added.error()));
      return known_.emplace(identity, std::move(failed)).first->second;
    }
  if (found->probes.empty()) found->file.reset();
  auto shared = std::make_shared<const ProbeFile>(std::move(*found));
  return known_.emplace(identity, std::move(shared)).first->second;
}

namespace {

/// Of what an ending process has, its memory goes first: its threads are there for a while.
bool has_ended(int proc_dir) {
  const auto files = target::executable_files(proc_dir);
  return files ? files->empty() : files.error().code == ErrorCode::not_found;
}

}  // namespace

Result<ProcessProbes> ProbeFiles::of_process(int pid, const sandbox::WorkBudget& budget) {
  const auto directory = TRY(target::ProcessDirectory::open(pid));
  const int dir = directory.fd.get();
  const auto files = target::executable_files(dir);
  if (!files && files.error().code == ErrorCode::not_permitted)
    return tl::unexpected<Error>(target::access_refused(pid, dir, "list the probes of"));
  if (files ? files->empty() : files.error().code == ErrorCode::not_found)
    return fail(
        ErrorCode::not_found,
        fmt::format("process {} executes no file: it is a kernel thread, or has ended", pid));
  TRY_WHILE(fmt::format("process {}", pid), files);
  // Debug files are looked for where the process looks, then where we do.
  const auto its_root = target::open_at(dir, "root", O_PATH);
  const auto our_root = target::open_at(AT_FDCWD, "/", O_PATH);
  std::vector<int> roots;
  if (its_root) roots.push_back(its_root->get());
  if (our_root && !(its_root && same_file(its_root->get(), our_root->get())))
    roots.push_back(our_root->get());

  ProcessProbes found;
  std::size_t refused = 0;
  for (const target::MappedFile& mapped : *files) {
    if (budget.is_limited() && budget.spent()) {
      ++found.left_out;
      continue;
    }
    std::optional<sandbox::Parser::ShortTime> short_time;
    if (budget.is_limited())
      short_time.emplace(sandbox::Parser::of_this_thread(),
                         std::chrono::ceil<std::chrono::milliseconds>(budget.left()));
    auto file = target::open_mapped(dir, mapped).and_then([&](sandbox::OpenedFile opened) {
      const int descriptor = opened.original ? opened.original.get() : opened.get();
      const auto path =
          target::without_deleted(mapped.path, descriptor, its_root ? its_root->get() : -1);
      return take(std::move(opened), path, roots);
    });
    if (!file && file.error().code == ErrorCode::limit && budget.is_limited() && budget.spent()) {
      ++found.left_out;
      continue;
    }
    if (!file) {
      // Code that is no ELF file (a JIT's, a device's) has no probes, and is no fault.
      const ErrorCode code = file.error().code;
      if (code == ErrorCode::not_permitted) ++refused;
      if (code == ErrorCode::not_found && has_ended(dir))
        return fail(ErrorCode::not_found, fmt::format("process {} has ended", pid));
      const bool is_no_elf = code == ErrorCode::malformed || code == ErrorCode::unsupported;
      if (!is_no_elf) found.problems.push_back(file.error().message);
      (is_no_elf ? found.files : found.unread) += 1;
      continue;
    }
    ++found.files;
    if ((*file)->probes.empty() && (*file)->problems.empty() && detail_.wanted.empty()) continue;
    const auto places = biases(**file, mapped);
    for (const Address bias : places) found.modules.push_back({*file, bias});
    if (places.empty())
      found.problems.push_back(
          fmt::format("{}: its mappings do not match its program headers", (*file)->path));
  }
  // CAP_PERFMON shows which files another user's process has mapped, but does not open them.
  if (refused == found.files + found.unread)
    return tl::unexpected<Error>(target::access_refused(pid, dir, "list the probes of"));
  return found;
}

namespace {

constexpr std::string_view note_section = ".note.stapsdt";
constexpr std::string_view description_section = VITRINE_NOTE_SECTION;

struct FileRequest {
  symbol::DebugSearch debug;
  bool functions = false;
};

template <pack::Of<FileRequest> T>
auto fields(T& request) {
  auto& [debug, functions] = request;
  return std::tie(debug, functions);
}

/// Gathers the probes of one file.
class Reader {
 public:
  Reader(ProbeFile& into, sandbox::FileMemory& file, const elf::File& elf,
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
  /// Of probes, by their full names in the notes that are being read.
  using Positions = std::unordered_map<std::string_view, std::size_t>;

  /// False: there is no section for notes of probes here.
  bool read_notes(Memory& file, const elf::File& elf) {
    probe::TypedProbes descriptions;
    const auto described = read_sections(file, elf, description_section);
    for (const auto& bytes : described) {
      const auto notes = probe::decode_typed_notes(bytes, elf.encoding);
      add_problems(notes.problems);
      descriptions.add(notes);
    }
    const auto announced = read_sections(file, elf, note_section);
    Positions positions;
    for (const auto& bytes : announced) {
      const auto notes = probe::decode_stapsdt_notes(bytes, elf.encoding);
      add_problems(notes.problems);
      add(notes, elf, descriptions, positions);
    }
    return !announced.empty();
  }

  void read_dof() {
    const auto dofs = probe::find_dof(file_, elf_);
    auto made = probe::make_dof_probes(dofs, file_, layout(), into_.machine);
    for (const std::string& text : made.problems) problem("{}", text);
    into_.tombstones += made.left_out;
    drop_announced_twice(made.probes, dofs);
    for (probe::Probe& one : made.probes) into_.probes.push_back(std::move(one));
  }

  /// The object step writes notes beside its DOF, for tools that do not read it. Those of functions
  /// that the linker has dropped lead to code that never runs.
  void drop_announced_twice(const std::vector<probe::Probe>& of_dof, const probe::DofFile& dofs) {
    const auto name_of = [](const probe::Probe& one) {
      return one.provider + '\0' + probe::canonical_name(one.name);
    };
    std::unordered_map<std::string, std::unordered_set<Address>> addresses;
    for (const probe::Probe& one : of_dof)
      for (const probe::Site& site : one.sites) addresses[name_of(one)].insert(site.address);
    if (addresses.empty()) return;
    for (probe::Probe& one : into_.probes) {
      const auto known = addresses.find(name_of(one));
      if (known == addresses.end()) continue;
      std::erase_if(one.sites, [&](const probe::Site& site) {
        return known->second.contains(site.address) ||
               probe::is_dropped(site, dofs, file_, into_.machine);
      });
    }
  }

  [[nodiscard]] probe::FileLayout layout() const {
    return {elf_.type,
            elf_.segments,
            static_cast<std::uint64_t>(file_.identity().size),
            {},
            static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))};
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
           probe::TypedProbes& descriptions, Positions& known) {
    probe::NoteProblems problems;
    const elf::Section* base = notes_from.find(".stapsdt.base");
    probe::FileLayout place = layout();
    if (base != nullptr) place.stapsdt_base = base->address;
    // Probes and their sites are counted before the first is made: large files have thousands.
    std::vector<std::size_t> positions;
    std::vector<std::size_t> counts(into_.probes.size());
    std::vector<const probe::StapsdtNote*> first_of_new;
    positions.reserve(notes.notes.size());
    for (const probe::StapsdtNote& note : notes.notes) {
      // One that is new is behind all others.
      positions.push_back(known.try_emplace(note.full_name(), known.size()).first->second);
      if (positions.back() == counts.size()) {
        counts.push_back(0);
        first_of_new.push_back(&note);
      }
      ++counts[positions.back()];
    }
    into_.probes.reserve(counts.size());
    for (const probe::StapsdtNote* note : first_of_new)
      into_.probes.push_back(
          {probe::Kind::sdt, std::string(note->provider), std::string(note->name), {}, {}});
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
    add_problems(problems);
  }

  void add_problems(const probe::NoteProblems& problems) {
    for (const probe::NoteProblem& one : problems.list) problem("{}", one.message);
    if (problems.left_out > 0) problem("{} more notes are invalid", problems.left_out);
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

  struct Place {
    std::size_t provider;                     ///< number of its name, in their order
    std::array<std::uint64_t, 2> name_begin;  ///< most names differ there
    probe::Probe* probe;

    bool operator<(const Place& other) const {
      if (provider != other.provider) return provider < other.provider;
      if (name_begin != other.name_begin) return name_begin < other.name_begin;
      if (const int order = probe->name.compare(other.probe->name); order != 0) return order < 0;
      return probe->kind < other.probe->kind;
    }
  };

  /// The first bytes, as numbers that are in the order of the strings.
  static std::array<std::uint64_t, 2> begin_of(std::string_view name) {
    std::array<std::uint64_t, 2> words{};
    std::memcpy(words.data(), name.data(), std::min(name.size(), sizeof words));
    for (std::uint64_t& word : words) word = be64toh(word);
    return words;
  }

  /// By name, each with its sites by address. A site that was announced twice alike is one.
  void sort() {
    auto& probes = into_.probes;
    std::erase_if(probes, [](const probe::Probe& one) {
      return one.sites.empty() && one.enabled_sites.empty();
    });
    std::map<std::string_view, std::size_t> providers;
    for (const probe::Probe& one : probes) providers.try_emplace(one.provider);
    std::size_t count = 0;
    for (auto& [name, number] : providers) number = count++;
    // Their places are sorted, and each is moved once: a probe is as long as four places.
    std::vector<Place> order;
    order.reserve(probes.size());
    for (probe::Probe& one : probes)
      order.push_back({providers.find(one.provider)->second, begin_of(one.name), &one});
    std::sort(order.begin(), order.end());
    std::vector<probe::Probe> sorted;
    sorted.reserve(probes.size());
    for (const Place& place : order) sorted.push_back(std::move(*place.probe));
    probes = std::move(sorted);
    for (probe::Probe& one : probes) {
      sort(one.sites);
      sort(one.enabled_sites);
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
      for (auto* list : {&probe.sites, &probe.enabled_sites})
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
      for (auto* list : {&probe.sites, &probe.enabled_sites})
        for (probe::Site& site : *list) {
          if (!symbol::is_mangled(site.function)) continue;
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
  sandbox::FileMemory& file_;
  const elf::File& elf_;
  const symbol::DebugSearch& search_;
  std::unique_ptr<symbol::DebugFile> debug_;
  std::uint64_t bytes_left_ = limits::note_section;  // to read of notes, of all sections together
};

ProbeFile probes_of(sandbox::FileMemory& file, const elf::File& elf, const FileRequest& request) {
  ProbeFile found;
  found.build_id = elf::hex_build_id(file, elf);
  found.encoding = elf.encoding;
  found.machine = machine_of(elf.machine);
  for (const elf::Segment& segment : elf.segments)
    if (segment.type == PT_LOAD && (segment.flags & PF_X) != 0) found.code.push_back(segment);
  Reader(found, file, elf, request.debug).read(request.functions);
  return found;
}

/// In a worker.
Result<ProbeFile> parse_probes(const FileRequest& request, FileDescriptor descriptor) {
  auto file = TRY(sandbox::FileMemory::from(std::move(descriptor)));
  const auto elf = TRY(elf::read_file(*file));
  return probes_of(*file, elf, request);
}

/// The first bytes that are read of a file, wherever they are in it; no more.
class LimitedMemory final : public Memory {
 public:
  LimitedMemory(Memory& file, std::size_t bytes) : file_(file), left_(bytes) {}

  void read(std::span<ReadRequest> requests) override {
    for (ReadRequest& request : requests) {
      request.got = 0;
      if (request.into.size() > left_) is_exhausted_ = true;
      if (is_exhausted_) continue;
      left_ -= request.into.size();
      file_.read(std::span(&request, 1));
    }
  }

  [[nodiscard]] bool is_exhausted() const { return is_exhausted_; }

 private:
  Memory& file_;
  std::size_t left_;
  bool is_exhausted_ = false;
};

}  // namespace

std::optional<PlainNotes> PlainNotes::of(std::shared_ptr<sandbox::FileMemory> file) {
  LimitedMemory limited(*file, limits::plain_headers);
  auto elf = elf::read_file(limited);
  if (!elf || limited.is_exhausted() || elf->type == ET_REL) return std::nullopt;
  std::uint64_t bytes = 0;
  for (const elf::Section& section : elf->sections) {
    const std::string_view name = elf->name(section);
    // A description may be of many sites, each with a copy of it.
    if (probe::has_dof(*elf, section) || name == description_section) return std::nullopt;
    if (name != note_section) continue;
    if (section.type == SHT_NOBITS || (section.flags & SHF_COMPRESSED) != 0) return std::nullopt;
    if (section.size > limits::plain_notes - bytes) return std::nullopt;
    bytes += section.size;
  }
  if (bytes == 0) return std::nullopt;
  return PlainNotes(std::move(file), std::move(*elf));
}

ProbeFile PlainNotes::read(std::string path) const {
  ProbeFile found = probes_of(*file_, elf_, {});
  found.path = std::move(path);
  found.file = file_;
  return found;
}

template <pack::Of<ProbeFile> T>
auto fields(T& found) {
  auto& [path, file, build_id, encoding, machine, code, probes, tombstones, problems, wanted,
         missing] = found;
  // The file is the caller's, and functions are added there.
  (void)wanted, (void)missing;
  return std::tie(path, build_id, encoding, machine, code, probes, tombstones, problems);
}

Result<ProbeFile> read_probe_file(std::shared_ptr<sandbox::FileMemory> file, std::string path,
                                  const symbol::DebugPlaces& places, const ProbeDetail& detail) {
  auto found = TRY(sandbox::Parser::of_this_thread().ask<&parse_probes>(
      {places.search(), detail.functions}, file->descriptor(), places.open()));
  found.path = std::move(path);
  found.file = std::move(file);
  return found;
}

template <pack::Of<DofListing> T>
auto fields(T& listing) {
  auto& [path, machine, relocatable, file] = listing;
  return std::tie(path, machine, relocatable, file);
}

namespace {

/// In a worker.
Result<DofListing> parse(const std::string& path, FileDescriptor descriptor) {
  const auto file = TRY(sandbox::FileMemory::from(std::move(descriptor)));
  const auto elf = TRY(elf::read_file(*file));
  DofListing listing{path, elf.machine, elf.type == ET_REL, probe::find_dof(*file, elf)};
  for (probe::PlacedDof& dof : listing.file.dofs)
    for (dof::Provider& provider : dof.object.providers)
      for (dof::Record& record : provider.records)
        if (auto name = symbol::demangled(record.function); name != record.function)
          record.demangled = std::move(name);
  auto& problems = listing.file.problems;
  problems.insert(problems.begin(), elf.problems.begin(), elf.problems.end());
  return listing;
}

}  // namespace

Result<DofListing> list_dof(const std::string& path) {
  auto opened = TRY(sandbox::open_regular_at(AT_FDCWD, path));
  return TRY_WHILE(path, sandbox::Parser::of_this_thread().ask<&parse>(path, opened.get()));
}

}  // namespace vitrine::observe
