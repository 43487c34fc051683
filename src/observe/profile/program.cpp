#include "observe/profile/program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "bpf/event.hpp"
#include "observe/events/event_labels.hpp"
#include "observe/process/registry.hpp"
#include "target/proc_file.hpp"
#include "target/threads.hpp"

namespace vitrine::observe {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// Of one process: what it executed before is kept for as long as its samples may take to come, and some of
/// it longer. A shell that replaces itself again and again executes a thousand programs a second.
constexpr std::size_t programs_kept = 4, max_programs_kept = 256;
constexpr std::size_t max_replaced_bytes =
    16U << 20;  ///< of their code, where there are more than the former
constexpr std::uint64_t kept_ns = std::chrono::nanoseconds(ProcessRegistry::time_to_drain).count();
/// Between two looks at the mappings of a process. A program that runs outside of all code that is
/// known, and goes on to, is looked at ever more seldom.
constexpr milliseconds min_budget{10};
constexpr milliseconds max_budget{1000};

/// What was read of the process is another program's, which it has executed since.
void forget_look(SampledProgram& program) {
  program.image = program.image_read_ns = 0;
  program.proc_dir = {};
  program.facts = *std::exchange(program.facts_before, nullptr);
}

/// A program that events reported gets its image by the first sample of its code.
bool is_of(SampledProgram& program, const vitrine_event_header& header, bool has_user_code) {
  const bool had_begun = program.begun_ns <= header.time_ns;
  if (!has_user_code || header.image == 0) return had_begun;
  if (had_begun && program.facts_before != nullptr && program.image != header.image) {
    forget_look(program);
    program.looked_at = program.learnt = false;  // it may still be executed
  }
  if (had_begun && program.image == 0) program.image = header.image;
  // A program that is executed again, without randomised addresses, has the same image.
  if (!had_begun || program.image != header.image) return false;
  program.facts_before = nullptr;
  return true;
}

/// The process has executed another program then.
void replaced(SampledProgram& program, std::uint64_t time_ns) {
  if (program.facts_before != nullptr && time_ns <= program.image_read_ns) forget_look(program);
  program.facts_before = nullptr;
}

/// When another one has replaced the oldest; 0: no event has reported one.
std::uint64_t oldest_replaced_ns(const ProgramHistory& its) {
  const auto newer = std::find_if(std::next(its.rbegin()), its.rend(),
                                  [](const auto& program) { return program->begun_ns != 0; });
  return newer == its.rend() ? 0 : (*newer)->begun_ns;
}

/// Those that another one had replaced long before the samples that are to come.
void forget_replaced(ProgramHistory& its, std::uint64_t taken_until_ns) {
  if (its.size() <= programs_kept) return;
  std::size_t bytes = 0;
  for (const auto& program : its) bytes += program->code.bytes();
  while (its.size() > programs_kept &&
         (its.size() > max_programs_kept || bytes > max_replaced_bytes ||
          oldest_replaced_ns(its) + kept_ns < taken_until_ns)) {
    bytes -= its.back()->code.bytes();
    its.pop_back();
  }
}

/// Of a process whose end was not reported, or not in time. Its last samples may still come: it is
/// so only the second time that it is found gone.
bool is_over(SampledProgram& program) {
  const bool was_sampled = std::exchange(program.sampled, false);
  if (!program.proc_dir) return std::exchange(program.gone, !was_sampled) && !was_sampled;
  const bool is_gone = ::faccessat(program.proc_dir.get(), "stat", F_OK, 0) != 0;
  return std::exchange(program.gone, is_gone) && is_gone;
}

void learn_facts(SampledProgram& program) {
  ProcessFacts facts = read_facts(program.pid, program.proc_dir.get());
  if (facts.command.empty()) return;  // it is gone
  facts.environment = std::move(program.facts.environment);
  program.facts = std::move(facts);
}

/// The kernel makes room for a program, and maps it: there is no environment yet, and what is known of the
/// program is not what it will be. Kernel threads and processes that have ended have no code, either,
/// but no executable.
bool is_being_loaded(int proc_dir, const std::string& stat_line) {
  const auto stat = target::parse_stat(stat_line);
  char first = 0;
  return stat && stat->code_end == 0 && ::readlinkat(proc_dir, "exe", &first, 1) > 0;
}

/// Of a process that could not be looked at. A thread may be called otherwise than its process.
std::string command_of(const SampledProgram& program, const vitrine_event_header& header) {
  const std::string_view file = file_name(program.facts.executable);
  constexpr std::size_t max_command = 15;  // TASK_COMM_LEN
  if (header.tid == header.pid || file.empty()) return bpf::comm_of(header);
  return std::string(file.substr(0, max_command));
}

/// What its parent declares of itself that cannot hold for it. The rest does until it is looked at.
void of_a_child(ProcessFacts& facts) {
  facts.inner.pid = 0;
  std::erase_if(facts.context, [](const profile::Attribute& attribute) {
    return attribute.key == "process.pid" || attribute.key == "service.instance.id";
  });
}

}  // namespace

SampledPrograms::Program SampledPrograms::of(const vitrine_event_header& header, bool has_user_code,
                                             ProgramHistory& its, bool has_pid) {
  for (const Program& program : its) {
    if (!is_of(*program, header, has_user_code)) continue;
    program->sampled = true;
    if (has_pid && !program->looked_at) look(*program);
    if (std::exchange(program->stale, false)) refresh(*program, true);
    if (program->facts.command.empty()) program->facts.command = command_of(*program, header);
    return program;
  }
  Program program = has_pid ? read(header.pid) : nullptr;
  if (program != nullptr && is_of(*keep(its, program), header, has_user_code)) {
    if (program->facts.command.empty()) program->facts.command = bpf::comm_of(header);  // a zombie
    return program;
  }
  // It is gone, or executes another program by now.
  auto unseen = std::make_shared<SampledProgram>();
  unseen->pid = header.pid > 0 ? header.pid : 0;
  unseen->image = header.image;
  unseen->facts.command = bpf::comm_of(header);
  if (header.pid <= 0 && header.image != 0)
    refusals_.insert(
        "processes of other PID namespaces have neither names of functions nor labels: run vitrine "
        "in the PID namespace of the machine (docker run --pid=host, hostPID: true)");
  // Nothing is known of its image: it was being loaded, and will be looked at.
  unseen->looked_at = header.image != 0 || !has_pid;
  return keep(its, std::move(unseen), header.time_ns);
}

/// `time_ns`: it was executed then, but not what the process has executed since.
SampledPrograms::Program SampledPrograms::keep(ProgramHistory& its, Program program,
                                               std::uint64_t time_ns) const {
  const auto at =
      std::ranges::find_if(its, [&](const Program& other) { return other->begun_ns <= time_ns; });
  its.insert(at, program);
  forget_replaced(its, taken_until_ns_);
  return program;
}

SampledPrograms::Program SampledPrograms::read(pid_t pid) {
  auto program = std::make_shared<SampledProgram>();
  program->pid = pid;
  program->found_ns = kernel_time_ns();
  return look(*program) ? program : nullptr;
}

/// Returns whether the process executes this program.
bool SampledPrograms::look(SampledProgram& program) {
  program.looked_at = true;
  program.budget = min_budget;
  auto dir =
      target::open_at(AT_FDCWD, fmt::format("/proc/{}", program.pid), O_RDONLY | O_DIRECTORY);
  if (!dir) return false;
  // What follows takes the lock that `stat` is read under, or waits for it.
  const auto stat = target::read_blocking_at(dir->get(), "stat", target::proc_file_bytes);
  if (!stat && stat.error().code == ErrorCode::limit)
    refusals_.insert(fmt::format("process {}: {}", program.pid, stat.error().message));
  if (!stat) return false;
  if (is_being_loaded(dir->get(), *stat)) {
    program.looked_at = false;
    return false;
  }
  const std::uint64_t image = target::program_image(dir->get());
  if (program.image != 0 && program.image != image) return false;
  if (program.image == 0 && program.begun_ns != 0) {
    program.image_read_ns = kernel_time_ns();
    program.facts_before = std::make_unique<const ProcessFacts>(program.facts);
  }
  program.image = image;
  program.proc_dir = std::move(*dir);
  const int proc_dir = program.proc_dir.get();
  learn_facts(program);
  program.learnt = true;
  program.facts.environment = read_environment(proc_dir, !program.facts.pod.empty());
  if (auto root = target::open_at(proc_dir, "root", O_PATH | O_DIRECTORY)) {
    program.root = std::make_shared<const target::FileDescriptor>(std::move(*root));
  } else if (root.error().code == ErrorCode::not_permitted) {
    const Error refused = target::access_refused(program.pid, proc_dir, "read the files of");
    refusals_.insert(refused.message + "; " + refused.remedy);
  }
  if (!program.code.is_known()) refresh(program, false);
  // It executed another program meanwhile: the next sample finds that one.
  return target::program_image(proc_dir) == program.image;
}

/// `is_unreported`: it has code that no event has reported.
bool SampledPrograms::refresh(SampledProgram& program, bool is_unreported) {
  program.read_at = Clock::now();
  if (!program.proc_dir) return false;
  // Of a process that executes another program the mappings are not this one's.
  const int proc_dir = program.proc_dir.get();
  if (program.image != 0 && target::program_image(proc_dir) != program.image) return false;
  // It publishes its context once it runs, and it was looked at before that.
  if (program.facts.context.empty()) learn_facts(program);
  CodeHistory::Reading when;
  when.begin_ns = kernel_time_ns();
  const auto last = program.code.last();
  auto code = reader_.read(proc_dir, last->mappings, last->files, &when.end_ns);
  if (!code || code->mappings.empty()) return false;
  const bool is_news = is_unreported ? program.code.found_unreported(when, std::move(*code))
                                     : program.code.found(when, std::move(*code));
  if (is_news) program.budget = min_budget;
  return is_news;
}

CodePlaces SampledPrograms::places_of(const SampledProgram& program) {
  if (our_root_ == nullptr) {
    auto root = target::open_at(AT_FDCWD, "/", O_PATH | O_DIRECTORY);
    our_root_ = std::make_shared<const target::FileDescriptor>(root ? std::move(*root)
                                                                    : target::FileDescriptor());
  }
  return {program.proc_dir ? program.proc_dir.get() : -1,
          (program.root != nullptr ? program.root : our_root_)->get()};
}

CodeHistory::Code SampledPrograms::code_of(SampledProgram& program, std::uint64_t time_ns) {
  return program.code.at(time_ns, reader_, places_of(program));
}

bool SampledPrograms::look_again(SampledProgram& program) {
  if (Clock::now() - program.read_at < program.budget) return false;
  if (refresh(program, true)) return true;
  program.budget = std::min(program.budget * 2, max_budget);
  return false;
}

void SampledPrograms::look_at(pid_t pid, ProgramHistory& its) {
  if (!its.empty()) {
    SampledProgram& last = *its.front();
    if (!last.looked_at) look(last);
    if (last.proc_dir && target::program_image(last.proc_dir.get()) == last.image) {
      code_of(last, kernel_time_ns());
      return;
    }
  }
  Program program = read(pid);
  // One that ends has given its code back by now, and is what it was.
  const bool has_ended = program != nullptr && program->image == 0;
  if (program != nullptr && (its.empty() || !has_ended)) keep(its, std::move(program));
}

ProgramHistory SampledPrograms::forked(pid_t child, const ProgramHistory& parent) {
  if (parent.empty()) return {};
  const SampledProgram& from = *parent.front();
  auto program = std::make_shared<SampledProgram>();
  program->pid = child;
  program->image = from.image;
  program->facts = from.facts;
  of_a_child(program->facts);
  program->root = from.root;
  program->code = from.code.child();
  program->sampled = false;
  return {std::move(program)};
}

void SampledPrograms::executed(const target::ProcessEvent& event, ProgramHistory& its) {
  auto program = std::make_shared<SampledProgram>();
  program->pid = event.pid;
  program->begun_ns = event.time_ns;
  program->code.begin(event.time_ns);
  program->sampled = false;
  if (!its.empty()) {  // its groups and its root are still the same
    SampledProgram& before = *its.front();
    replaced(before, event.time_ns);
    program->root = before.root;
    program->facts.inner = before.facts.inner;
    program->facts.cgroup = before.facts.cgroup;
    program->facts.container = before.facts.container;
    program->facts.pod = before.facts.pod;
  }
  keep(its, std::move(program));
}

void SampledPrograms::mapped(const target::ProcessEvent& event, ProgramHistory& its) {
  if (its.empty()) {
    auto program = std::make_shared<SampledProgram>();
    program->pid = event.pid;
    program->sampled = false;
    keep(its, std::move(program));
  }
  // One that was found is reported later, when it has mapped what it has.
  const auto at = std::ranges::find_if(its, [&](const Program& one) {
    return std::max(one->begun_ns, one->found_ns) <= event.time_ns;
  });
  SampledProgram& program = at == its.end() ? *its.front() : **at;
  // The kernel maps the executable before all else.
  if (program.begun_ns != 0 && program.code.changed_ns() == 0)
    program.facts.executable = target::without_deleted(event.mapping.name);
  program.code.mapped(event.time_ns, event.mapping);
}

void SampledPrograms::missed(ProgramHistory& its) {
  if (!its.empty()) its.front()->stale = true;
}

void SampledPrograms::read_groups(SampledProgram& program) {
  if (const auto dir =
          target::open_at(AT_FDCWD, fmt::format("/proc/{}", program.pid), O_RDONLY | O_DIRECTORY))
    observe::read_groups(program.facts, dir->get());
}

void SampledPrograms::learn(SampledProgram& program) {
  program.learnt = true;
  if (program.proc_dir && !program.gone &&
      target::program_image(program.proc_dir.get()) == program.image)
    learn_facts(program);
}

bool SampledPrograms::tidy(ProgramHistory& its, bool learns) {
  if (its.empty()) return false;
  forget_replaced(its, taken_until_ns_);
  SampledProgram& program = *its.front();
  const bool sampled = program.sampled;
  program.learnt = false;
  if (sampled && !program.looked_at && learns) look(program);
  if (is_over(program)) return true;
  if (learns && sampled) learn(program);
  return false;
}

std::vector<std::string> SampledPrograms::take_problems() {
  std::vector<std::string> problems(refusals_.begin(), refusals_.end());
  refusals_.clear();
  for (; reported_ < reader_.problems().size(); ++reported_)
    problems.push_back(reader_.problems()[reported_]);
  return problems;
}

}  // namespace vitrine::observe
