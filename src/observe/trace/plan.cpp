#include "observe/trace/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/text.hpp"
#include "probe/argument.hpp"

namespace vitrine::observe {
namespace {

constexpr std::size_t shown = 5;

std::vector<std::string> closest(const std::string& pattern, const std::set<std::string>& seen) {
  const bool whole = pattern.find(':') != std::string::npos;
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const std::string& name : seen)
    ranked.emplace_back(
        spelling_distance(pattern, whole ? std::string_view(name)
                                         : std::string_view(name).substr(name.find(':') + 1)),
        name);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (const auto& [far, name] : ranked)
    if (names.size() < shown) names.push_back(name);
  return names;
}

/// Whether it is so by what it is called; where its site has another name for it, it is not added up.
bool is_hidden(const query::Subject& subject, const Redaction& redaction) {
  using Kind = query::Subject::Kind;
  switch (subject.kind) {
    case Kind::argument:
      return redaction.covers_argument(subject.index, {});
    case Kind::named_argument:
    case Kind::word:
    case Kind::label:
      return redaction.covers_label(subject.name);
    case Kind::calculated:
      return std::any_of(subject.calculation.begin(), subject.calculation.end(),
                         [&](const query::WrittenStep& step) {
                           return step.index ? redaction.covers_argument(*step.index, {})
                                             : redaction.covers_label(step.name);
                         });
    default:
      return false;
  }
}

}  // namespace

Result<void> check(const TraceOptions& options) {
  const TraceTarget& target = options.target;
  const int kinds = static_cast<int>(!target.pids.empty()) +
                    static_cast<int>(!target.files.empty()) +
                    static_cast<int>(!target.command.empty());
  if (kinds == 0)
    return fail(ErrorCode::usage, "nothing to trace", "give a PID, a file, or --exec -- COMMAND");
  if (kinds > 1)
    return fail(ErrorCode::usage, "processes, files and a command exclude each other",
                "for some files of a process give the process, and --module FILE");
  const auto& reduction = options.query.reduction;
  if (reduction && reduction->value &&
      is_hidden(reduction->value->subject, options.query.redaction))
    return fail(ErrorCode::usage,
                fmt::format("'{}' is redacted, and a sum would reveal it", reduction->value->title),
                "group by it (--by), or omit it from --redact");
  const bool latency = reduction && reduction->kind == query::ReductionKind::latency;
  if (options.query.slower && !latency)
    return fail(ErrorCode::usage, "--slower requires the two probes of a pair",
                "add --latency START,END");
  if (std::ranges::any_of(options.probes, &std::string::empty))
    return fail(ErrorCode::usage, "an empty argument names no probe",
                "give it as provider:name; `vitrine probes` lists the probes");
  if (options.probes.empty() && !latency)
    return fail(ErrorCode::usage, "missing argument: no probes",
                "give them as provider:name, or '*' for all; `vitrine probes` lists the probes");
  return {};
}

Error no_such_probe(const TraceOptions& options, const std::vector<std::string>& patterns,
                    const std::set<std::string>& seen, const MissingFunctions& missing) {
  const TraceTarget& target = options.target;
  std::string where;
  std::string argument;
  if (!target.files.empty()) {
    where = fmt::format("{}", fmt::join(target.files, ", "));
    argument = target.files.front();
  } else if (!target.pids.empty()) {
    where = fmt::format("process {}", fmt::join(target.pids, ", "));
    argument = std::to_string(target.pids.front());
  } else {
    where = target.command.front();
    argument = "FILE";
  }
  if (probe::is_function_pattern(patterns.front())) return missing.explain(patterns.front(), where);
  if (patterns.front().starts_with("func:"))
    return {ErrorCode::failed, fmt::format("{} has no probe {}", where, patterns.front()),
            "for a function, write func:MODULE:FUNCTION, for example func:libc:malloc"};
  const std::string of_started =
      target.command.empty() ? ""
      : options.follow
          ? "if a program that it starts has them, name its file: vitrine trace FILE PROBE"
          : "if a program that it starts has them (as of a script or ld.so), add --follow, or name "
            "its file: vitrine trace FILE PROBE";
  if (seen.empty())
    return {ErrorCode::failed, where + " has no probes",
            "probes are compiled in with <vitrine/sdt.h> or <sys/sdt.h>; llvm-strip and sstrip "
            "remove their notes" +
                (of_started.empty() ? "" : "; " + of_started)};
  const std::vector<std::string> names = closest(patterns.front(), seen);
  const std::size_t others = seen.size() - names.size();
  return {ErrorCode::failed,
          fmt::format("{} has no probe {}; it has {}{}", where, fmt::join(patterns, " or "),
                      fmt::join(names, ", "),
                      others == 0 ? std::string() : fmt::format(" and {} more", others)),
          fmt::format("`vitrine probes {}` lists all", argument) +
              (of_started.empty() ? "" : "; " + of_started)};
}

namespace {

using Role = TraceProgram::Role;

/// Notes on functions. A pattern of a whole library selects dozens: the first ones have their notes
/// whole, the others their names.
struct FunctionNotes {
  std::string_view what;                  ///< is so of all of them
  std::vector<std::string> notes, names;  ///< of the same length

  void add(const std::string& name, std::vector<std::string> of_it) {
    for (std::string& note : of_it) {
      notes.push_back(std::move(note));
      names.push_back(name);
    }
  }

  void move_to(std::vector<std::string>& into, const std::string& path) {
    constexpr std::size_t whole = 2, named = 8;
    const std::size_t full = notes.size() <= whole + 1 ? notes.size() : whole;
    into.insert(into.end(), notes.begin(), notes.begin() + static_cast<std::ptrdiff_t>(full));
    if (full == notes.size()) return;
    const auto rest = std::span(names).subspan(full);
    into.push_back(fmt::format("{} more functions of {} {}: {}{}", rest.size(), path, what,
                               fmt::join(rest.first(std::min(rest.size(), named)), ", "),
                               rest.size() > named ? ", …" : ""));
  }
};

/// What notes begin with.
std::string place_of(const ProbeFile& file, const probe::Site& site, const std::string& name) {
  return fmt::format("{} at {} of {}", name, hex(site.address), file.path);
}

/// Probes of different names that share an instruction, because the linker folded functions of
/// equal code (ICF). All uprobes at an instruction must have one semaphore: the kernel refuses another.
class FoldedSites {
 public:
  explicit FoldedSites(const ProbeFile& file) {
    for (const probe::Probe& probe : file.probes)
      for (const probe::Site& site : probe.sites)
        if (probe.kind == probe::Kind::sdt && site.file_offset) add(probe, site);
  }

  /// Null: the site is no such.
  struct Shared {
    std::vector<const probe::Probe*> probes;
    std::uint64_t semaphore_offset = 0;  ///< the first in the file; 0: none has any
    bool are_many = false;               ///< semaphores differ
    bool counted_first = false;          ///< one of the sites has Site::counted_first
  };
  [[nodiscard]] const Shared* of(const probe::Site& site) const {
    const auto found = site.file_offset ? all_.find(*site.file_offset) : all_.end();
    if (found == all_.end()) return nullptr;
    return found->second.probes.size() < 2 && !found->second.are_many ? nullptr : &found->second;
  }

 private:
  void add(const probe::Probe& probe, const probe::Site& site) {
    const auto [at, is_new] = all_.try_emplace(*site.file_offset);
    Shared& shared = at->second;
    const std::uint64_t semaphore = site.semaphore_offset.value_or(0);
    if (!is_new && semaphore != shared.semaphore_offset) shared.are_many = true;
    if (shared.semaphore_offset == 0 || (semaphore != 0 && semaphore < shared.semaphore_offset))
      shared.semaphore_offset = semaphore;
    shared.counted_first = shared.counted_first || site.counted_first;
    if (shared.probes.empty() || shared.probes.back() != &probe) shared.probes.push_back(&probe);
  }

  std::unordered_map<std::uint64_t, Shared> all_;
};

/// The first of `all` names, with `between` two of them, and behind `last` how many there are besides.
/// `names`: at least those that are shown.
std::string first_of(std::vector<std::string> names, std::size_t all, std::string_view between,
                     std::string_view last) {
  if (names.size() > shown) names.resize(shown);
  const std::size_t left = all - names.size();
  return fmt::format("{}{}", fmt::join(names, between),
                     left == 0 ? std::string() : fmt::format("{}{} more", last, left));
}

/// What a trace misses, and how to see it.
std::string uncounted_note(const std::set<std::string>& probes, const std::string& path) {
  return fmt::format(
      "{}: code that checks whether {} is traced does not fire: until a process has started, the "
      "kernel would count in another copy of its semaphore (vitrine check: sdt.semaphore-page); "
      "trace one running process by its PID",
      path, first_of({probes.begin(), probes.end()}, probes.size(), " or ", " or "));
}

/// The names of the others.
std::string names_of_others(const FoldedSites::Shared& shared, const probe::Probe& probe) {
  std::vector<std::string> names;
  for (const probe::Probe* other : shared.probes) {
    if (names.size() == shown) break;
    if (other != &probe) names.push_back(other->provider + ":" + other->name);
  }
  return first_of(std::move(names), shared.probes.size() - 1, ", ", " and ");
}

bool runs_here(Machine machine) {
  return machine == native_machine ||
         (native_machine == Machine::x86_64 && machine == Machine::i386);
}

}  // namespace

TracePlan::TracePlan(std::span<const std::string> patterns, const TraceQuery& query, bool force)
    : query_(query), force_(force), nops_(bpf::kernel_nop_class()) {
  if (query.reduction && query.reduction->kind == query::ReductionKind::latency) {
    starts_.emplace_back(query.reduction->start);
    patterns_.emplace_back(query.reduction->end);
    for (const std::string& text : {query.reduction->start, query.reduction->end})
      wanted_.push_back({text, probe::Pattern(text)});
  } else {
    for (const std::string& pattern : patterns) {
      patterns_.emplace_back(pattern);
      wanted_.push_back({pattern, probe::Pattern(pattern)});
    }
  }
}

std::vector<std::string> TracePlan::unmatched() const {
  std::vector<std::string> texts;
  for (const Wanted& one : wanted_)
    if (!one.matched) texts.push_back(one.text);
  return texts;
}

std::vector<std::string> TracePlan::wanted() const {
  std::vector<std::string> texts;
  for (const Wanted& one : wanted_) texts.push_back(one.text);
  return texts;
}

void TracePlan::match(const probe::Probe& probe, int process) {
  for (Wanted& one : wanted_) one.matched = one.matched || one.pattern.matches(probe, process);
}

std::vector<bpf::AttachSite> TracePlan::add(const std::shared_ptr<const ProbeFile>& file,
                                            int process, bool counts_all,
                                            std::vector<std::string>& notes) {
  std::vector<bpf::AttachSite> sites;
  missing_.add(*file);
  if (file->file == nullptr || !known_.insert(file->file->identity()).second) return sites;
  ProbeSymbols symbols(*file);
  FunctionNotes refused{"are not attached to, for such reasons", {}, {}};
  FunctionNotes warned{"have such notes", {}, {}};
  const std::set<Address> endless = calls_without_end(*file);
  const FoldedSites folded(*file);
  std::unordered_set<std::uint64_t> noted;  // folded sites, by offset: one note for all probes
  std::set<std::string> uncounted;          // probes whose semaphores the kernel would not count in
  for (const probe::Probe& probe : file->probes) {
    std::string name = probe.provider + ":" + probe.name;
    if (probe.kind != probe::Kind::function) seen_.insert(name);
    // The entry and the return of a call have one name.
    if (query_.reduction && query_.reduction->of_calls) name = probe::entry_of(name);
    match(probe, process);
    const auto role = role_of(probe, process);
    if (!role) continue;
    if (!runs_here(file->machine)) {
      notes.push_back(fmt::format("{}: {} is for another processor", name, file->path));
      continue;
    }
    std::optional<std::uint32_t> program;
    for (const probe::Site& site : probe.sites) {
      if (!site.at_return && endless.contains(site.address)) continue;
      const bool is_function = probe.kind == probe::Kind::function;
      std::vector<std::string> said;
      const auto skip = skip_of(*file, site, name, is_function ? said : notes);
      if (skip && is_function && !site.problems.empty())
        said.push_back(place_of(*file, site, name) + ": " + site.problems[0]);
      (skip ? warned : refused).add(probe.name, std::move(said));
      if (!skip) continue;
      program = program_of(std::make_unique<TraceProgram>(name, site, symbols, query_, *role));
      std::uint64_t semaphore = site.semaphore_offset.value_or(0);
      bool counted_first = site.counted_first.has_value();
      if (const auto* shared = probe.kind == probe::Kind::sdt ? folded.of(site) : nullptr) {
        semaphore = shared->semaphore_offset;
        counted_first = shared->counted_first;
        if (shared->probes.size() > 1 && noted.insert(*site.file_offset).second)
          notes.push_back(fmt::format(
              "{} is one instruction with {}: the linker folded equal code (--icf), "
              "and every execution fires each of them that is traced{}",
              place_of(*file, site, name), names_of_others(*shared, probe),
              shared->are_many ? "; of their semaphores the kernel sets the first alone" : ""));
      }
      if (counted_first && !counts_all && semaphore != 0) {
        uncounted.insert(name);
        semaphore = 0;
      }
      sites.push_back(take(*file, site, *program, *skip, semaphore));
    }
    // Where nothing fires, there is nothing to be asked for.
    if (program) add_enabled_sites(*file, probe, *program, counts_all, sites, notes);
  }
  refused.move_to(notes, file->path);
  warned.move_to(notes, file->path);
  if (!uncounted.empty()) notes.push_back(uncounted_note(uncounted, file->path));
  if (!sites.empty()) files_.push_back(file);
  return sites;
}

/// Functions whose calls must be measured, and whose returns cannot be attached to.
std::set<Address> TracePlan::calls_without_end(const ProbeFile& file) const {
  std::set<Address> endless;
  if (!query_.reduction || !query_.reduction->of_calls) return endless;
  for (const probe::Probe& probe : file.probes)
    for (const probe::Site& site : probe.sites)
      if (site.at_return && (!site.file_offset || (!site.risk.empty() && !force_)))
        endless.insert(site.address);
  return endless;
}

/// The only place that describes a site for the kernel.
bpf::AttachSite TracePlan::take(const ProbeFile& file, const probe::Site& site,
                                std::uint32_t program, unsigned skip,
                                std::uint64_t semaphore_offset) {
  bpf::AttachSite attach;
  attach.file_offset = *site.file_offset;
  attach.semaphore_offset = semaphore_offset;
  attach.skip = skip;
  attach.site = static_cast<std::uint32_t>(sites_.size());
  attach.program = program;
  attach.use = site.use;
  attach.at_return = site.at_return;
  if (site.use == probe::SiteUse::enabled_pointer && !site.arguments.empty()) {
    const auto pointer =
        probe::compile_argument(site.arguments[0], file.machine, site.address, nullptr);
    if (pointer && pointer->kind == VITRINE_MEMORY)
      attach.pointer_on_stack = static_cast<std::uint8_t>(pointer->displacement);
  }
  sites_.push_back({&file, site.address, program, site.use, site.function_name()});
  if (site.use == probe::SiteUse::fire) ++fires_;
  return attach;
}

void TracePlan::refuse(std::uint32_t number) {
  TracedSite& site = sites_[number];
  if (site.use == probe::SiteUse::fire && !site.is_refused) --fires_;
  site.is_refused = true;
}

std::string_view TracePlan::missing_end() const {
  bool has_start = starts_.empty(), has_end = starts_.empty();
  for (const TracedSite& site : sites_) {
    if (site.use != probe::SiteUse::fire || site.is_refused) continue;
    (programs_[site.program]->role() == Role::start ? has_start : has_end) = true;
  }
  if (has_start == has_end) return {};
  return has_start ? "end" : "start";
}

/// The is-enabled sites of a probe, `program` in place of its name.
void TracePlan::add_enabled_sites(const ProbeFile& file, const probe::Probe& probe,
                                  std::uint32_t program, bool counts_all,
                                  std::vector<bpf::AttachSite>& sites,
                                  std::vector<std::string>& notes) {
  const std::string name = programs_[program]->probe() + " is-enabled";
  for (const probe::Site& site : probe.enabled_sites) {
    // A breakpoint that is never hit needs no place where it can be.
    const bool hit = site.use != probe::SiteUse::enabled_operand || !site.file_offset;
    const auto skip = hit ? skip_of(file, site, name, notes) : 0;
    if (!skip) continue;
    const bool counts = counts_all || !site.counted_first;
    sites.push_back(
        take(file, site, program, *skip, counts ? site.semaphore_offset.value_or(0) : 0));
  }
}

std::optional<Role> TracePlan::role_of(const probe::Probe& probe, int process) const {
  if (probe::selected(probe, patterns_, process))
    return starts_.empty() ? Role::measure : Role::end;
  if (!starts_.empty() && probe::selected(probe, starts_, process)) return Role::start;
  return std::nullopt;
}

/// SitePlan::skip of a site that can be attached to.
std::optional<unsigned> TracePlan::skip_of(const ProbeFile& file, const probe::Site& site,
                                           const std::string& name,
                                           std::vector<std::string>& notes) const {
  const auto where = [&] { return place_of(file, site, name); };
  if (!site.file_offset) {
    notes.push_back(where() + ": not attached to: " +
                    (site.problems.empty() ? "it is not in the file" : site.problems[0]));
    return std::nullopt;
  }
  if (!site.risk.empty() && !force_) {
    notes.push_back(where() + ": not attached to: " + site.risk);
    return std::nullopt;
  }
  if (site.semaphore != 0 && !site.semaphore_offset && !site.problems.empty())
    notes.push_back(where() + ": " + site.problems[0]);
  std::array<std::byte, bpf::site_bytes> bytes{};
  const std::size_t got = file.file->read_some(*site.file_offset, bytes);
  const auto plan =
      bpf::plan_site(std::span(bytes).first(got), file.machine, nops_, force_, site.verified);
  const bool is_function =
      site.at_return || site.is_exit || !site.risk.empty() || name.starts_with("func:");
  if (!plan) {
    notes.push_back(where() + ": not attached to: " + plan.error().message);
    return std::nullopt;
  }
  if (plan->cost == bpf::SiteCost::step && !is_function)
    notes.push_back(
        where() + ": each fire costs about 10 us, because the kernel single-steps its instruction");
  return plan->skip;
}

std::uint32_t TracePlan::program_of(std::unique_ptr<TraceProgram> program) {
  const auto [known, fresh] =
      by_identity_.try_emplace(program->identity(), static_cast<std::uint32_t>(programs_.size()));
  if (fresh) programs_.push_back(std::move(program));
  return known->second;
}

}  // namespace vitrine::observe
