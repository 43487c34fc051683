// Static probes of SystemTap's kind: their notes, sites, semaphores and arguments.
#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "bpf/nop_policy.hpp"
#include "check/file_facts.hpp"
#include "check/rule.hpp"

namespace vitrine::check {
namespace {

using probe::SemaphoreFault;

constexpr std::size_t arguments_of_libbpf = 12;

std::string probe_name(const SdtSite& one) {
  return fmt::format("{}:{} at {}", one.provider, one.name, hex(one.site.address));
}

/// Asks `wrong` of every site: nullopt, or what is.
template <class Wrong>
Outcome of_sites(const FileSubject& subject, Wrong wrong) {
  if (subject.relocatable) return does_not_apply("it is an object, not linked yet");
  Counted sites("sites");
  for (const SdtSite& one : subject.sdt.sites) {
    if (const std::optional<std::string> what = wrong(one))
      sites.bad(fmt::format("{}{}{}", probe_name(one), what->empty() ? "" : ": ", *what));
    else
      sites.good();
  }
  return sites.outcome();
}

/// The same of sites that have a semaphore.
template <class Wrong>
Outcome of_semaphores(const FileSubject& subject, Wrong wrong) {
  if (subject.relocatable) return does_not_apply("it is an object, not linked yet");
  Counted semaphores("sites with semaphores");
  for (const SdtSite& one : subject.sdt.sites) {
    if (one.site.semaphore == 0) continue;
    if (wrong(one))
      semaphores.bad(fmt::format("{}, semaphore {}", probe_name(one), hex(one.site.semaphore)));
    else
      semaphores.good();
  }
  return semaphores.outcome();
}

SemaphoreFault fault_of(const FileSubject& subject, const SdtSite& one) {
  return probe::semaphore_fault(one.site.semaphore,
                                {subject.elf.type,
                                 subject.elf.segments,
                                 static_cast<std::uint64_t>(subject.file->identity().size),
                                 {}});
}

Outcome notes_kept(const FileSubject& subject) {
  if (subject.sdt.notes != 0) return holds(fmt::format("{} notes", subject.sdt.notes));
  if (!subject.sdt.base_section && !subject.sdt.semaphore_section && subject.sdt.sections.empty())
    return fails("the file has no notes, and nothing else of probes",
                 "fire probes with <sys/sdt.h> or <vitrine/sdt.h>, in code that is linked in");
  return fails("the file has sections of probes, but no notes: they have been stripped");
}

Outcome section_shape(const FileSubject& subject) {
  Counted sections("sections of notes");
  for (const elf::Section& one : subject.sdt.sections) {
    if (one.type == SHT_NOTE && (one.flags & SHF_ALLOC) == 0)
      sections.good();
    else
      sections.bad(one.type != SHT_NOTE ? fmt::format("its type is {}, not SHT_NOTE", one.type)
                                        : "it is loaded into memory (SHF_ALLOC)");
  }
  return sections.outcome();
}

Outcome notes_decode(const FileSubject& subject) {
  if (subject.sdt.sections.empty()) return does_not_apply("the file has no notes");
  const auto& problems = subject.sdt.problems;
  if (problems.empty()) return holds(fmt::format("{} notes", subject.sdt.notes));
  return fails(fmt::format("{} are invalid; the first: {}", problems.size(), problems.front()));
}

Outcome base_kept(const FileSubject& subject) {
  if (subject.sdt.sites.empty()) return does_not_apply("the file has no sites");
  if (!subject.sdt.base_section) return fails("the file has no section .stapsdt.base");
  return of_sites(subject, [](const SdtSite& one) {
    return one.base == 0 ? std::optional<std::string>("its note's base is 0") : std::nullopt;
  });
}

Outcome no_tombstones(const FileSubject& subject) {
  if (subject.sdt.notes == 0) return does_not_apply("the file has no notes");
  if (subject.sdt.tombstones == 0) return holds(fmt::format("{} notes", subject.sdt.notes));
  // Of the object step's notes beside a DOF, --lld alone leaves such.
  return fails(fmt::format("{} of {} notes belong to code that the linker dropped",
                           subject.sdt.tombstones, subject.sdt.notes),
               subject.dof.file.dofs.empty()
                   ? ""
                   : "vitrine usdt link --no-sdt writes no notes beside the DOF");
}

Outcome site_executable(const FileSubject& subject) {
  return of_sites(subject, [](const SdtSite& one) -> std::optional<std::string> {
    if (one.site.file_offset) return std::nullopt;
    return one.site.problems.empty() ? std::string() : one.site.problems.front();
  });
}

Outcome site_nop(const FileSubject& subject) {
  const Machine machine = machine_of(subject.elf.machine);
  if (machine != Machine::x86_64 && machine != Machine::i386 && machine != Machine::aarch64)
    return undecided("the instructions of this processor are unknown");
  return of_sites(subject, [&](const SdtSite& one) -> std::optional<std::string> {
    if (!one.site.file_offset) return std::nullopt;  // another rule reports it
    const auto plan = bpf::plan_site(one.code, machine, bpf::NopClass::plain, false);
    if (!plan) return plan.error().message;
    if (plan->cost == bpf::SiteCost::step) return "its nop is one that uprobes single-step";
    return std::nullopt;
  });
}

Outcome site_safe(const FileSubject& subject) {
  return of_sites(subject, [&](const SdtSite& one) -> std::optional<std::string> {
    const auto machine = machine_of(subject.elf.machine);
    const auto plain = bpf::plan_site(one.code, machine, bpf::NopClass::plain, false);
    const auto plan = bpf::plan_site(one.code, machine, bpf::NopClass::unsafe_nop5, false);
    if (plain && !plan) return "it is a 5-byte nop";
    return std::nullopt;
  });
}

Outcome semaphore_writable(const FileSubject& subject) {
  return of_semaphores(subject, [&](const SdtSite& one) {
    const SemaphoreFault fault = fault_of(subject, one);
    return fault == SemaphoreFault::not_writable || fault == SemaphoreFault::made_read_only;
  });
}

Outcome semaphore_in_file(const FileSubject& subject) {
  return of_semaphores(subject, [&](const SdtSite& one) {
    const SemaphoreFault fault = fault_of(subject, one);
    return fault == SemaphoreFault::not_in_file || fault == SemaphoreFault::beyond_file;
  });
}

Outcome semaphore_even(const FileSubject& subject) {
  return of_semaphores(
      subject, [&](const SdtSite& one) { return fault_of(subject, one) == SemaphoreFault::odd; });
}

Outcome semaphore_page(const FileSubject& subject) {
  if (subject.relocatable) return does_not_apply("it is an object, not linked yet");
  constexpr std::uint64_t largest_page = 65536;  // of aarch64
  const bool small_pages = subject.elf.machine == EM_X86_64 || subject.elf.machine == EM_386;
  const probe::FileLayout layout{
      subject.elf.type, subject.elf.segments, UINT64_MAX, {}, small_pages ? 4096 : largest_page};
  Counted semaphores("sites with semaphores");
  for (const SdtSite& one : subject.sdt.sites) {
    if (one.site.semaphore == 0) continue;
    if (const auto page = probe::page_mapped_twice(one.site.semaphore, layout))
      semaphores.bad(
          fmt::format("{}, semaphore {}: the page at offset {} of the file is at {} and, in "
                      "another segment, at {}",
                      probe_name(one), hex(one.site.semaphore), hex(page->offset), hex(page->own),
                      hex(page->first)));
    else
      semaphores.good();
  }
  return semaphores.outcome();
}

// Exported from a library, the program's semaphore of the same name takes its place: what the
// library's code asks is then not what its note names.
Outcome semaphore_hidden(const FileSubject& subject) {
  if (subject.program) return does_not_apply("no other symbol replaces a program's own symbols");
  return of_semaphores(subject, [&](const SdtSite& one) {
    return std::ranges::binary_search(subject.sdt.exported, one.site.semaphore);
  });
}

Outcome arguments(const FileSubject& subject, bool syntax, const char* things) {
  Counted counted(things);
  const auto& sites = subject.sdt.sites;
  std::size_t all = 0, reported = 0;
  for (const SdtSite& one : sites) all += one.site.arguments.size();
  for (const ArgumentFault& one : subject.sdt.arguments) {
    if ((one.error.kind == probe::ArgumentError::Kind::syntax) != syntax) continue;
    ++reported;
    const SdtSite& site = sites[one.site];
    counted.bad(fmt::format("{}, {}: {}", probe_name(site), site.site.arguments[one.argument],
                            one.error.message));
  }
  for (std::size_t i = reported; i < all; ++i) counted.good();
  return counted.outcome();
}

Outcome arguments_parse(const FileSubject& subject) {
  return arguments(subject, true, "arguments");
}

bool is_of_a_provider(const FileSubject& subject, Address site) {
  return std::ranges::any_of(subject.dof.probes.probes, [&](const probe::Probe& probe) {
    return std::ranges::any_of(probe.sites,
                               [&](const probe::Site& one) { return one.address == site; });
  });
}

Outcome arguments_resolve(const FileSubject& subject) {
  Outcome outcome = arguments(subject, false, "arguments");
  const auto first = std::ranges::find_if(subject.sdt.arguments, [](const ArgumentFault& one) {
    return one.error.kind != probe::ArgumentError::Kind::syntax;
  });
  // The calling convention decides where the arguments of a provider's probes are.
  if (first != subject.sdt.arguments.end() &&
      is_of_a_provider(subject, subject.sdt.sites[first->site].site.address))
    outcome.remedy =
        "declare an integer or a pointer in the provider: no probe has vector registers";
  return outcome;
}

Outcome argument_count(const FileSubject& subject) {
  return of_sites(subject, [](const SdtSite& one) {
    const std::size_t count = one.site.arguments.size();
    return count > arguments_of_libbpf ? std::optional(fmt::format("{} arguments", count))
                                       : std::nullopt;
  });
}

Outcome sites_unique(const FileSubject& subject) {
  std::set<std::tuple<std::string_view, std::string_view, Address>> seen;
  return of_sites(subject, [&](const SdtSite& one) {
    const bool is_new = seen.emplace(one.provider, one.name, one.site.address).second;
    return is_new ? std::nullopt : std::optional<std::string>("listed twice");
  });
}

bool plain_name(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '+';
  });
}

Outcome names_plain(const FileSubject& subject) {
  return of_sites(subject, [](const SdtSite& one) {
    return plain_name(one.provider) && plain_name(one.name) ? std::nullopt
                                                            : std::optional<std::string>("");
  });
}

constexpr Profiles sdt{Profile::sdt};
constexpr std::string_view notes = "SystemTap, UserSpaceProbeImplementation: notes";
constexpr std::string_view uprobes = "Linux, uprobes (ref_ctr_offset)";

constexpr Rule<FileSubject> sdt_table[] = {
    {{"sdt.notes-kept", sdt, required, "The file has the notes of its probes", notes,
      "strip with GNU strip, or llvm-strip --keep-section=.note.stapsdt", every_reader},
     notes_kept},
    {{"sdt.section", sdt, required, ".note.stapsdt is a note section that is not loaded", notes,
      "use the macros of <sys/sdt.h> or <vitrine/sdt.h>", every_reader},
     section_shape},
    {{"sdt.notes-decode", sdt, required, "Every note can be decoded", notes,
      "use the macros of <sys/sdt.h> or <vitrine/sdt.h>", every_reader},
     notes_decode},
    {{"sdt.base", sdt, required,
      ".stapsdt.base is in the file, and every note refers to it: tools adjust addresses by it",
      "SystemTap, UserSpaceProbeImplementation: .stapsdt.base",
      "keep it from --gc-sections: <vitrine/sdt.h> does (SHF_GNU_RETAIN)", "gdb; perf"},
     base_kept},
    {{"sdt.no-tombstones", sdt, advised, "No note belongs to code that the linker dropped", notes,
      "compile with -DVITRINE_SDT_KEEP=1 (<vitrine/sdt.h>), or link with ld.bfd or without "
      "--gc-sections",
      "libbpf"},
     no_tombstones},
    {{"sdt.site-executable", sdt, required,
      "Every site is in an executable segment, and in the file", notes,
      "do not change segments after linking (objcopy, packers)", every_reader},
     site_executable},
    {{"sdt.site-nop", sdt, required, "Every site is a nop, which uprobes emulate", notes,
      "use the macros of <sys/sdt.h> or <vitrine/sdt.h>; if --gc-sections of lld or mold dropped "
      "the function, compile with -DVITRINE_SDT_KEEP=1 (<vitrine/sdt.h>), or link with ld.bfd",
      "all readers: they would change the program"},
     site_nop},
    {{"sdt.site-safe", sdt, advised,
      "No site is itself a 5-byte nop, which Linux 6.18 turns into an unsafe call",
      "Linux 6.18, uprobes", "use a 1-byte nop, as <sys/sdt.h> and <vitrine/sdt.h> do",
      "libbpf, bpftrace, perf on Linux 6.18"},
     site_safe},
    {{"sdt.sites-unique", sdt, advised, "No site is listed twice by one name", notes,
      "link each object once", "bcc, bpftrace: they count its fires twice"},
     sites_unique},
    {{"sdt.semaphore-writable", sdt, required, "Every semaphore is in memory that stays writable",
      uprobes, "define it in a writable section (.probes), not const", every_reader},
     semaphore_writable},
    {{"sdt.semaphore-in-file", sdt, required, "Every semaphore has bytes in the file: not .bss",
      uprobes, "define it with __attribute__((section(\".probes\")))", every_reader},
     semaphore_in_file},
    {{"sdt.semaphore-even", sdt, required, "Every semaphore is at an even offset", uprobes,
      "define it as unsigned short", every_reader},
     semaphore_even},
    {{"sdt.semaphore-page", sdt, required,
      "No other writable segment maps the page of a semaphore: a process that is traced from its "
      "start would have it counted there",
      uprobes, "use <vitrine/sdt.h>, which aligns .probes to a page; or link with ld.bfd or gold",
      "all, of processes that start after the tracer"},
     semaphore_page},
    {{"sdt.semaphore-hidden", sdt, required, "No semaphore of a library is exported",
      "ELF, symbol preemption: a symbol of the program with the same name replaces it",
      "define it with __attribute__((visibility(\"hidden\")))", every_reader},
     semaphore_hidden},
    {{"sdt.arguments-parse", sdt, required, "Every argument has a form that compilers print",
      "SystemTap, UserSpaceProbeImplementation: arguments",
      "use the macros of <sys/sdt.h> or <vitrine/sdt.h>", every_reader},
     arguments_parse},
    {{"sdt.arguments-resolve", sdt, advised,
      "Every argument can be evaluated: each symbol in it has an address",
      "SystemTap, UserSpaceProbeImplementation: arguments",
      "pass a copy in a register: STAP_SDT_ARG_CONSTRAINT=nr", "libbpf, bpftrace, bcc: the probe"},
     arguments_resolve},
    {{"sdt.argument-count", sdt, advised, "No site has more than 12 arguments",
      "libbpf, BPF_USDT_MAX_ARG_CNT", "pass a pointer to the rest", "libbpf, bpftrace, bcc"},
     argument_count},
    {{"sdt.names", sdt, advised,
      "Provider and probe names consist of letters, digits, _, -, . and +", notes,
      "pass plain words to the macro: no quotes", "bpftrace, perf: cannot name it"},
     names_plain},
};

}  // namespace

std::span<const Rule<FileSubject>> sdt_rules() {
  return sdt_table;
}

}  // namespace vitrine::check
