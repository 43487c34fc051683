// Static probes of DTrace's kind: the DOFs of a file, and the code that they name.
#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/limits.hpp"
#include "check/file_facts.hpp"
#include "check/rule.hpp"

namespace vitrine::check {
namespace {

using dof::Part;

/// Whether no DOF has a problem with any of `parts`.
Outcome of_parts(const FileSubject& subject, std::initializer_list<Part> parts) {
  Counted dofs("DOFs");
  for (const probe::PlacedDof& one : subject.dof.file.dofs) {
    const auto& problems = one.object.problems;
    const auto found = std::ranges::find_if(problems, [&](const dof::Problem& problem) {
      return std::ranges::count(parts, problem.part) != 0;
    });
    if (found == problems.end())
      dofs.good();
    else
      dofs.bad(found->text);
  }
  return dofs.outcome();
}

Outcome present(const FileSubject& subject) {
  const std::size_t count = subject.dof.file.dofs.size();
  if (count != 0) return holds(fmt::format("{} DOFs", count));
  if (subject.dof.file.content_elsewhere)
    return fails("it is a debug file: the program has the DOF");
  return fails("the file has no DOF", "the file has no DOF");
}

Outcome headers(const FileSubject& subject) {
  const probe::DofFile& file = subject.dof.file;
  if (!file.problems.empty()) return fails(file.problems.front());
  if (file.dofs.empty()) return does_not_apply("the file has no DOF");
  return holds(fmt::format("{} DOFs", file.dofs.size()));
}

Outcome placement(const FileSubject& subject) {
  return of_parts(subject, {Part::placement});
}

Outcome sections(const FileSubject& subject) {
  return of_parts(subject, {Part::sections});
}

Outcome providers(const FileSubject& subject) {
  return of_parts(subject, {Part::providers});
}

Outcome records(const FileSubject& subject) {
  return of_parts(subject, {Part::records, Part::size});
}

Outcome relocations(const FileSubject& subject) {
  return of_parts(subject, {Part::relocations});
}

Outcome semaphores(const FileSubject& subject) {
  return of_parts(subject, {Part::semaphores});
}

/// The loaded segment that has all of a DOF's loadable bytes in the file; null: none has.
const elf::Segment* segment_of(const FileSubject& subject, const probe::PlacedDof& one) {
  const auto& segments = subject.elf.segments;
  const auto found = std::ranges::find_if(segments, [&](const elf::Segment& segment) {
    return segment.type == PT_LOAD && one.address >= segment.address &&
           one.address - segment.address < segment.file_size &&
           one.object.loadable_size <= segment.file_size - (one.address - segment.address);
  });
  return found == segments.end() ? nullptr : &*found;
}

Outcome loaded(const FileSubject& subject) {
  if (subject.relocatable) return does_not_apply("it is an object, not linked yet");
  Counted dofs("DOFs");
  for (const probe::PlacedDof& one : subject.dof.file.dofs) {
    if (segment_of(subject, one) != nullptr)
      dofs.good();
    else
      dofs.bad(fmt::format("at {}, in no segment that is loaded", hex(one.address)));
  }
  return dofs.outcome();
}

Outcome read_only(const FileSubject& subject) {
  if (subject.relocatable) return does_not_apply("it is an object, not linked yet");
  Counted dofs("DOFs");
  for (const probe::PlacedDof& one : subject.dof.file.dofs) {
    const elf::Segment* segment = segment_of(subject, one);
    if (!one.dynamic_relocations.empty())
      dofs.bad(fmt::format("at {}: the dynamic linker writes {} words of it", hex(one.address),
                           one.dynamic_relocations.size()));
    else if (segment != nullptr && (segment->flags & PF_W) != 0)
      dofs.bad(fmt::format("at {}: in a writable segment", hex(one.address)));
    else
      dofs.good();
  }
  return dofs.outcome();
}

/// Asks `wrong` of every site, is-enabled ones too.
template <class Wrong>
Outcome dof_of_sites(const FileSubject& subject, Wrong wrong) {
  if (subject.relocatable) return does_not_apply("it is an object, not linked yet");
  Counted sites("sites");
  for (const probe::Probe& one : subject.dof.probes.probes)
    for (const auto* list : {&one.sites, &one.enabled_sites})
      for (const probe::Site& site : *list) {
        if (!wrong(site)) {
          sites.good();
          continue;
        }
        sites.bad(fmt::format("{}:{} at {} in {}{}{}", one.provider, one.name, hex(site.address),
                              site.function, site.problems.empty() ? "" : ": ",
                              site.problems.empty() ? "" : site.problems.front()));
      }
  return sites.outcome();
}

bool in_code(const FileSubject& subject, const probe::Site& site) {
  return elf::file_offset(subject.elf.segments, site.address, 1, PF_X).has_value();
}

Outcome dof_site_executable(const FileSubject& subject) {
  return dof_of_sites(subject, [&](const probe::Site& site) { return !in_code(subject, site); });
}

Outcome site_pattern(const FileSubject& subject) {
  return dof_of_sites(
      subject, [&](const probe::Site& site) { return in_code(subject, site) && !site.verified; });
}

Outcome dof_sites_unique(const FileSubject& subject) {
  std::set<Address> seen;
  return dof_of_sites(subject,
                      [&](const probe::Site& site) { return !seen.insert(site.address).second; });
}

/// Asks `wrong` of every record.
template <class Wrong>
Outcome of_records(const FileSubject& subject, Wrong wrong) {
  Counted records("records");
  for (const probe::PlacedDof& placed : subject.dof.file.dofs)
    for (const dof::Provider& provider : placed.object.providers)
      for (const dof::Record& one : provider.records) {
        if (wrong(one))
          records.bad(fmt::format("{}:{} in {}", provider.name, one.name, one.function));
        else
          records.good();
      }
  return records.outcome();
}

Outcome function_names(const FileSubject& subject) {
  return of_records(subject, [](const dof::Record& one) {
    return one.function.size() > limits::dof_function_name;
  });
}

Outcome known_relocation(const FileSubject& subject) {
  return of_records(subject, [](const dof::Record& one) {
    return one.relocation == dof::Relocation::own_address;
  });
}

constexpr Profiles dof_profile{Profile::dof};
constexpr std::string_view remake = "generate it again with `vitrine usdt link` (dtrace -G)";

constexpr Rule<FileSubject> dof_table[] = {
    {{"dof.present", dof_profile, required, "The file has a DOF", "DTrace, .SUNW_dof",
      "link the object that `vitrine usdt link` (dtrace -G) writes", every_reader},
     present},
    {{"dof.header", dof_profile, required,
      "Everything in .SUNW_dof is a DOF with a valid header: magic, version, sizes",
      "DTrace, sys/dtrace.h: dof_hdr_t", remake, every_reader},
     headers},
    {{"dof.placement", dof_profile, required,
      "Every DOF is aligned to 8, and has the data model of the file",
      "DTrace, sys/dtrace.h: dof_hdr_t", remake, every_reader},
     placement},
    {{"dof.sections", dof_profile, required,
      "Its sections are aligned, within bounds, do not overlap, and have entries of the right size",
      "DTrace, sys/dtrace.h: dof_sec_t", remake, every_reader},
     sections},
    {{"dof.providers", dof_profile, required,
      "Every provider has a name and all tables that it refers to",
      "DTrace, sys/dtrace.h: dof_provider_t", remake, every_reader},
     providers},
    {{"dof.records", dof_profile, required,
      "Every record's names, types, arguments and sites are within their tables",
      "DTrace, sys/dtrace.h: dof_probe_t", remake, every_reader},
     records},
    {{"dof.relocations", dof_profile, required,
      "Every relocation has a known type, and an address word of its own",
      "DTrace, sys/dtrace.h: dof_relodesc_t", remake, every_reader},
     relocations},
    {{"dof.semaphores", dof_profile, required, "Every semaphore belongs to a provider and a probe",
      "vitrine, abi/dof.h", remake, "vitrine"},
     semaphores},
    {{"dof.loaded", dof_profile, required, "The DOF is in a segment that is loaded",
      "DTrace, drti: registers the DOF from memory",
      "keep .SUNW_dof allocated: no objcopy, no linker script that drops it", every_reader},
     loaded},
    {{"dof.read-only", dof_profile, advised,
      "The DOF needs no dynamic relocation and no writable memory",
      "FreeBSD D9374: PC-relative relocations",
      "generate it with `vitrine usdt link`, which uses position-relative words", ""},
     read_only},
    {{"dof.site-executable", dof_profile, required,
      "Every site is in an executable segment of the file", "DTrace, fasttrap", remake,
      every_reader},
     dof_site_executable},
    {{"dof.site-pattern", dof_profile, required,
      "Every site has the instructions that replace a probe call",
      "DTrace, fasttrap: fasttrap_tracepoint_init",
      "run the object step once on these objects, before linking", every_reader},
     site_pattern},
    {{"dof.sites-unique", dof_profile, advised, "No site is listed twice", "DTrace, fasttrap",
      "link each object once; do not fold identical code (--icf)",
      "DTrace of illumos and FreeBSD: they drop the probe"},
     dof_sites_unique},
    {{"dof.function-names", dof_profile, advised, "No function's name has more than 127 bytes",
      "DTrace, sys/dtrace.h: DTRACE_FUNCNAMELEN",
      "give functions with probes shorter names (no templates of templates)",
      "DTrace of illumos and Oracle: they refuse the DOF"},
     function_names},
    {{"dof.known-relocation", dof_profile, advised,
      "No record has a relocation of type 2 (DOFREL), which only recent consumers support",
      "FreeBSD D9374",
      "register the DOF with vitrine's helper (usdt_register.c), which rewrites it",
      "DTrace of illumos and Oracle"},
     known_relocation},
};

}  // namespace

std::span<const Rule<FileSubject>> dof_rules() {
  return dof_table;
}

}  // namespace vitrine::check
