#include "observe/trace/attached_probes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/stop.hpp"
#include "base/text.hpp"
#include "observe/trace/program.hpp"
#include "target/maps.hpp"
#include "target/process.hpp"
#include "target/threads.hpp"

namespace vitrine::observe {
namespace {

/// Between two looks at whether the main thread has ended.
constexpr std::chrono::milliseconds thread_interval{50};

/// Whether the kernel counts in all semaphores of a module where the process reads them: no mapping
/// of their page that comes before is writable. So it is when the dynamic linker has protected RELRO.
bool has_started(const ProbeModule& module, int proc_dir) {
  std::set<std::uint64_t> seen;  // pages
  for (const probe::Probe& probe : module.file->probes)
    for (const probe::Site& site : probe.sites) {
      if (!site.counted_first || !seen.insert(*site.counted_first).second) continue;
      const auto writable = target::is_writable_at(proc_dir, module.bias + *site.counted_first);
      if (!writable || *writable) return false;
    }
  return true;
}

/// How the kernel pairs the fires of a program.
Result<KernelReduction> slow_pair(const TraceProgram& program, const TraceQuery& query) {
  const auto& match = program.reduction()->match;
  const bool is_captured = match && match->kind == query::Bound::Kind::capture &&
                           match->slot < VITRINE_CAPTURES && program.is_key(match->slot);
  const auto& named = query.reduction->match;  // of a function: nothing, its stack pointer
  if (match && !is_captured)
    return fail(
        ErrorCode::usage,
        fmt::format("--slower cannot match by {} at {}",
                    named ? "'" + named->title + "'" : "the stack pointer", program.probe()),
        "match by an argument that is an integer, a pointer or text");
  KernelReduction pair;
  pair.role = program.role() == TraceProgram::Role::start ? VITRINE_SLOW_START : VITRINE_SLOW_END;
  return pair;
}

}  // namespace

AttachedProbes::AttachedProbes(const TraceOptions& options, TracePlan plan,
                               std::vector<probe::FunctionPattern> functions,
                               std::optional<pid_t> alone, bpf::Tracer& tracer,
                               std::span<const query::Selected> selected, TraceReduction* reduction,
                               Notes& notes)
    : options_(options),
      plan_(std::move(plan)),
      alone_(alone),
      tracer_(tracer),
      selected_(selected),
      reduction_(reduction),
      notes_(notes),
      modules_(options.modules),
      files_({.functions = wants_functions(options.query), .wanted = std::move(functions)}) {}

Result<void> AttachedProbes::attach_files(
    std::span<const std::string> paths,
    const std::function<void(const ProbeFile&, const std::string& path)>& found) {
  std::vector<Planned> planned;
  for (const std::string& path : paths) {
    const auto file = TRY(files_.open(path));
    TRY(require_not_stopped(options_.stop, "the trace"));
    add(file, false, planned);
    if (file->file != nullptr) found(*file, path);
  }
  return attach(planned);
}

Result<AttachedProbes::Files> AttachedProbes::attach_process(pid_t pid, OfProcess& its,
                                                             Unstarted unstarted) {
  auto found = TRY(files_.of_process(pid));
  notes_.add(std::move(found.problems));
  std::vector<Planned> planned;
  const auto directory = TRY(target::ProcessDirectory::open(pid));
  bool all = true;
  for (const ProbeModule& module : found.modules) {
    const bool started = plan_.knows(*module.file) || has_started(module, directory.fd.get());
    if (!started && alone_ && unstarted == Unstarted::leave) {
      all = false;
      continue;
    }
    // The kernel attaches to processes, too, that start later.
    add(module.file, started && alone_.has_value(), planned);
  }
  its.waits = all ? 0 : its.waits + 1;
  TRY(attach(planned));
  note_unset_semaphores(its, found.modules);
  Files files;
  for (Planned& one : planned) files.push_back(std::move(one.file));
  return files;
}

/// For all places of a file in a process (dlmopen loads it anew), the kernel counts in the semaphore of the
/// first.
void AttachedProbes::note_unset_semaphores(OfProcess& its, std::span<const ProbeModule> modules) {
  const auto identity = [](const ProbeModule& module) {
    return module.file->file == nullptr ? sandbox::FileIdentity{} : module.file->file->identity();
  };
  for (const ProbeModule& module : modules) {
    if (!guarded_.contains(identity(module))) continue;
    const auto times = std::ranges::count(modules, identity(module), identity);
    if (times > 1 && its.loaded_twice.insert(identity(module)).second)
      notes_.add(fmt::format(
          "{} is loaded {} times: the kernel sets its semaphores in one place alone, where "
          "guarded probes fire; elsewhere only unguarded probes do (VITRINE_PROBE)",
          module.file->path, times));
  }
}

void AttachedProbes::add(const std::shared_ptr<const ProbeFile>& file, bool counts_all,
                         std::vector<Planned>& planned) {
  if (!modules_.takes(file->path)) return;
  if (file->file != nullptr) inodes_.insert(file->file->identity().inode);
  std::vector<std::string> notes;
  auto sites = plan_.add(file, alone_.value_or(0), counts_all, notes);
  notes_.add(std::move(notes));
  if (std::ranges::any_of(sites, &bpf::AttachSite::semaphore_offset))
    guarded_.insert(file->file->identity());
  if (!sites.empty()) planned.push_back({file, std::move(sites)});
}

Result<void> AttachedProbes::attach(std::span<const Planned> planned) {
  TRY(set_programs());
  std::vector<bpf::FileSites> files;
  for (const Planned& its : planned)
    files.push_back({its.file->file->descriptor(), its.file->path, its.sites});
  const bool had_no_main_thread = alone_ && target::has_no_main_thread(*alone_);
  auto attachment = TRY(tracer_.attach(files, alone_));
  for (const bpf::AttachFailure& failure : attachment.failures) {
    const Planned& its = planned[failure.file];
    const std::uint32_t number = its.sites[failure.site].site;
    const TracedSite& site = plan_.site(number);
    plan_.refuse(number);
    notes_.add(fmt::format("{}{} at {} of {}: not attached to: {}",
                           plan_.programs()[site.program]->probe(),
                           site.use == probe::SiteUse::fire ? "" : " is-enabled", hex(site.address),
                           its.file->path, failure.error.message));
  }
  attachment.failures.clear();
  attachment_.add(std::move(attachment));
  if (!alone_) return {};
  if (attached_.empty() && had_no_main_thread) is_filtered_ = false;
  attached_.insert(attached_.end(), planned.begin(), planned.end());
  return {};
}

/// Those that the plan has made since the last call.
Result<void> AttachedProbes::set_programs() {
  for (; programs_set_ < plan_.programs().size(); ++programs_set_) {
    const TraceProgram& program = *plan_.programs()[programs_set_];
    auto compiled = program.compile_condition(selected_, tracer_.hash_key());
    for (const std::string& complaint : program.condition().complaints())
      notes_.add(program.probe() + ": " + complaint);
    // Of functions all parameters are listed, whether they are shown or not.
    if (!program.is_function())
      for (const std::string& problem : program.problems())
        notes_.add(program.probe() + ": " + problem);
    auto reduction =
        reduction_ != nullptr ? reduction_->in_kernel(program, compiled) : std::nullopt;
    if (options_.query.slower) reduction = TRY(slow_pair(program, options_.query));
    left_over_.push_back(!compiled.left_over.empty());
    TRY(tracer_.set_program(static_cast<std::uint32_t>(programs_set_),
                            program.wire(compiled, reduction)));
  }
  return {};
}

/// The kernel's pid filter passes nothing once the main thread has ended (target::has_no_main_thread). It is asked at each fire
/// of a perf event, and the breakpoint is removed; of links it is asked when a file is mapped.
void AttachedProbes::watch_main_thread() {
  if (!alone_ || !is_filtered_ || Clock::now() < next_look_at_thread_) return;
  next_look_at_thread_ = Clock::now() + thread_interval;
  if (attached_.empty() || !target::has_no_main_thread(*alone_)) return;
  is_filtered_ = false;
  if (attach_again())
    notes_.add(fmt::format(
        "the main thread of process {} has ended: some fires of its other threads may be missing",
        *alone_));
}

/// The kernel's pid filter is the main thread of the time, not its number: the thread that takes over the number is
/// another one.
void AttachedProbes::main_thread_replaced() {
  if (!alone_ || !is_filtered_ || attached_.empty()) return;
  if (attach_again())
    notes_.add(fmt::format(
        "another thread of process {} than its main thread has executed a program: the first fires "
        "of that program were missed",
        *alone_));
}

/// To all that was attached to. False: it was not possible, which is noted
/// unless the process has ended or the trace ends.
bool AttachedProbes::attach_again() {
  const std::vector<Planned> all = std::exchange(attached_, {});
  attachment_.detach();
  attachment_ = {};
  const auto attached = attach(all);
  if (attached) return true;
  const ErrorCode code = attached.error().code;
  if (code != ErrorCode::not_found && code != ErrorCode::interrupted)
    notes_.add(attached.error().message);
  return false;
}

}  // namespace vitrine::observe
